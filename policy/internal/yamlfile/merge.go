package yamlfile

import (
	"slices"

	"go.yaml.in/yaml/v4"
)

// maxNodes is how large aliases may make a file.
const maxNodes = 100_000

// expand puts what aliases and merge keys stand for in their place. It reports whether that is no more than left.
func (r *Reader) expand(n *yaml.Node, left *int) bool {
	if *left--; *left < 0 {
		return false
	}
	n.Anchor = ""
	for i, child := range n.Content {
		if child.Kind == yaml.AliasNode {
			copied := *child.Alias
			copied.Content, copied.Line, copied.Column = slices.Clone(copied.Content), child.Line, child.Column
			n.Content[i], child = &copied, &copied
		}
		if !r.expand(child, left) {
			return false
		}
	}
	if n.Kind == yaml.MappingNode && slices.ContainsFunc(n.Content, isMerge) {
		r.merge(n)
	}
	return true
}

func isMerge(key *yaml.Node) bool { return key.ShortTag() == "!!merge" }

// merge puts what the merge keys of a mapping stand for in their place. As for yaml.v2, the later of two values counts,
// also where it is the merged one, and the entries of two mappings are joined.
func (r *Reader) merge(n *yaml.Node) {
	var content []*yaml.Node
	at := map[string]int{}
	add := func(entries []*yaml.Node) {
		for i := 0; i+1 < len(entries); i += 2 {
			key, value := entries[i], entries[i+1]
			if first, twice := at[key.Value]; twice {
				content[first], content[first+1] = key, joined(content[first+1], value)
				continue
			}
			at[key.Value] = len(content)
			content = append(content, key, value)
		}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		sources := []*yaml.Node{n.Content[i+1]}
		if !isMerge(n.Content[i]) {
			add(n.Content[i : i+2])
			continue
		}
		if sources[0].Kind == yaml.SequenceNode {
			sources = sources[0].Content
		}
		for _, source := range slices.Backward(sources) {
			if source.Kind != yaml.MappingNode {
				r.Fail(source, "a merge of "+kindOf(source), "<<: *NAME of a mapping, or a list of them")
				continue
			}
			add(source.Content)
		}
	}
	n.Content = content
}

// joined returns what stands in place of a value after a later one: if both are mappings, the entries of both.
func joined(before, after *yaml.Node) *yaml.Node {
	if before.Kind != yaml.MappingNode || after.Kind != yaml.MappingNode {
		return after
	}
	both, written := *after, map[string]bool{}
	for i := 0; i < len(after.Content); i += 2 {
		written[after.Content[i].Value] = true
	}
	both.Content = slices.Clone(after.Content)
	for i := 0; i+1 < len(before.Content); i += 2 {
		if !written[before.Content[i].Value] {
			both.Content = append(both.Content, before.Content[i:i+2]...)
		}
	}
	return &both
}
