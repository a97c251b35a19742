package policy

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"go.yaml.in/yaml/v4"

	"github.com/sluice-redis/sluice/internal/clientaddr"
)

// networks is a value of expressions: what cidr("10.0.0.0/8") makes, and what the file's `networks` name. The functions
// have the names of Kubernetes' library for CEL.
type networks []netip.Prefix

var networksType = cel.OpaqueType("net.CIDR")

// networkFunctions is the functions that make networks and ask them.
var networkFunctions = []cel.EnvOption{
	cel.Function("cidr", cel.Overload("cidr_string", []*cel.Type{cel.StringType}, networksType,
		cel.UnaryBinding(func(text ref.Val) ref.Val {
			network, err := parseNetwork(string(text.(types.String)))
			if err != nil {
				return types.WrapErr(err)
			}
			return networks{network}
		}))),
	cel.Function("containsIP", cel.MemberOverload("net_cidr_contains_ip_string",
		[]*cel.Type{networksType, cel.StringType}, cel.BoolType, cel.BinaryBinding(func(of, address ref.Val) ref.Val {
			text := string(address.(types.String))
			if text == "" {
				return types.False
			}
			addr, err := netip.ParseAddr(text[:min(len(text), 64)])
			if err != nil {
				return types.WrapErr(fmt.Errorf("containsIP(%.64q): not an address", text))
			}
			return types.Bool(of.(networks).contain(addr))
		}))),
}

// contain reports whether an address is in one of the networks.
func (n networks) contain(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(n, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// parseNetwork reads a network, or an address as the network of it alone. It refuses an address inside of a network:
// 10.0.0.5/8.
func parseNetwork(text string) (network netip.Prefix, err error) {
	network, err = clientaddr.ParsePrefix(text)
	if prefix, _ := netip.ParsePrefix(text); err != nil || prefix != prefix.Masked() {
		err = fmt.Errorf("%.64q is no network", text)
	}
	return network, err
}

// networkLike is what may be meant by a text that is no network; otherwise if that is not known.
func networkLike(text, otherwise string) string {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Masked().String() + ", or " + prefix.Addr().String() + " alone"
	}
	return otherwise
}

// ConvertToNative, ConvertToType, Equal, Type and Value make networks a value of CEL that can only be asked.
func (n networks) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("networks are no Go value")
}
func (n networks) ConvertToType(ref.Type) ref.Val { return types.NewErr("networks have no other type") }
func (n networks) Equal(other ref.Val) ref.Val {
	others, ok := other.(networks)
	return types.Bool(ok && slices.Equal(n, others))
}
func (n networks) Type() ref.Type { return networksType }
func (n networks) Value() any     { return []netip.Prefix(n) }

const wantNetworks = "networks such as 10.0.0.0/8 or 2001:db8::/32, or addresses"

// networks reads the lists of networks by their names in expressions: networks.office.
func (r *reader) networks(n *yaml.Node) map[string]networks {
	lists := map[string]networks{}
	if n == nil || !r.IsMapping(n, "networks") {
		return lists
	}
	for _, e := range r.Entries(n, "network") {
		if !attributeName.MatchString("networks." + e.Key.Value) {
			r.Fail(e.Key, fmt.Sprintf("network %q", e.Key.Value), "a name such as office: lower case, digits, underscore")
			continue
		}
		lists["networks."+e.Key.Value] = r.networkList(e.Value)
	}
	return lists
}

func (r *reader) networkList(n *yaml.Node) (list networks) {
	items, ok := r.Items(n, "network")
	for _, item := range items {
		text, isText := r.Scalar(item, "network")
		if !isText {
			continue
		}
		network, err := parseNetwork(text)
		if err != nil {
			r.Fail(item, fmt.Sprintf("network %q", text), networkLike(text, wantNetworks))
			continue
		}
		list = append(list, network)
	}
	if ok && len(items) == 0 {
		r.Fail(n, "an empty list of networks", wantNetworks)
	}
	return list
}
