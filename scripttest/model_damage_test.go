package scripttest_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-redis/sluice/internal/layout"
	"github.com/sluice-redis/sluice/internal/proof/model"
)

// What may happen to a stored value, script by script: each a command, of which one is drawn. What a value says is
// damaged, never the order of its entries.

var notTimes = []string{"x", "", "-1", "1.5", "1e400", "9007199254740992", "99999999999999999"}

func listDamages(store model.Store, keys []string, pick int64) [][]string {
	key := keys[0]
	bad := notTimes[pick%int64(len(notTimes))]
	damages := [][]string{{"SET", key, "x"}}
	entries := store[key].List
	switch {
	case store[key].Type == "list":
		for i := range entries {
			damages = append(damages, []string{"LSET", key, strconv.Itoa(i), bad})
		}
		damages = append(damages, []string{"RPUSH", key, bad})
	case store[key].Type == "":
		damages = append(damages, []string{"RPUSH", key, bad})
	}
	return damages
}

func zsetDamages(store model.Store, keys []string, pick int64) [][]string {
	key := keys[0]
	damages := [][]string{{"SET", key, "x"}}
	if store[key].Type == "string" {
		return damages
	}
	damages = append(damages, []string{"ZADD", key, []string{"inf", "1e300", "9007199254740992"}[pick%3], "x"})
	for _, m := range store[key].Ranked() {
		_, more := store[key].ZSet[m.Name+"||2"]
		if strings.Contains(m.Name, "||") || more || m.Score != float64(int64(m.Score)) {
			continue
		}
		damages = append(damages, []string{"ZADD", key, strconv.FormatFloat(m.Score+0.5, 'f', 1, 64), m.Name})
	}
	return damages
}

func gcraDamages(store model.Store, keys []string, pick int64) [][]string {
	key := keys[0]
	if store[key].Type != "string" {
		return [][]string{{"RPUSH", key, "x"}}
	}
	var damages [][]string
	at := epoch + (pick-500)*int64(1e9)
	for _, fields := range []string{
		"%d:1:1:%[1]d:1s", "%d:0:0:%[1]d:1s", "9007199254740992:0:1:%d:1s", "72057594037927935:0:1:%d:1s",
		"%d:0:10000001:%[1]d:1s", "%d:16777215:16777215:0:0", "%d:0:1:%[1]d:1h", "%d:6:7:%[1]d:1h", "%d:9999999:10000000:0:0",
		"5000000000000000:0:3:%d:281474976710655", "%d:0:1:72057594037927935:281474976710655", "%d:0:1:%[1]d:1h:1s:%[1]d",
		"5000000000000000:2:3:%d:1h:1m:%[1]d", "5000000000000000:2:3:%d:1m:1h:0", "%d:0:1:%[1]d:1h:0:72057594037927935",
	} {
		damages = append(damages, []string{"SET", key, packed(fmt.Sprintf("bucket:"+fields, at))})
	}
	full := layout.GCRA(0, 0, 1, 0, 0)
	for _, text := range []string{"", "x", full, full + "x", full[:25]} {
		damages = append(damages, []string{"SET", key, text})
	}
	return damages
}

func ringDamages(store model.Store, keys []string, pick int64) [][]string {
	key := keys[pick/100%int64(len(keys))]
	if store[key].Type != "string" {
		return [][]string{{"RPUSH", key, "x"}}
	}
	text := store[key].Text
	damages := [][]string{{"SET", key, ""}, {"SET", key, "x"}, {"APPEND", key, "behind"}}
	damages = append(damages, []string{"SET", key, text[:max(len(text)-1, 0)]}, []string{"SET", key, text[:len(text)/2]})
	for at := range min(len(text), 60) {
		for _, value := range []byte{text[at] ^ 1, text[at] ^ 0x80} {
			damages = append(damages, []string{"SETRANGE", key, strconv.Itoa(at), string(value)})
		}
	}
	return damages
}

// idDamages are as many as those of a small ring.
func idDamages(store model.Store, key string, pick int64) (damages [][]string) {
	if store[key].Type != "string" {
		return [][]string{{"RPUSH", key, "x"}}
	}
	for i := range 60 {
		kind := []string{"charge", "settled"}[i%9/8]
		text := packed(fmt.Sprintf("%s:%d:%d", kind, epoch+(pick-500)*int64(i)*1_000_000, i))
		if i%5 == 0 {
			text = []string{"", "x", text + "x", text[1:], text + "1234567"}[i/5%5]
		}
		damages = append(damages, []string{"SET", key, text})
	}
	return damages
}

func bucketDamages(store model.Store, keys []string, pick int64) [][]string {
	damages := [][]string{}
	if store[keys[0]].Type != "string" {
		for _, fields := range []string{"rate 0", "rate 2.0", "interval 999", "scope 2", "rate x", "more 1"} {
			damages = append(damages, append([]string{"HSET", keys[0]}, strings.Fields(fields)...))
		}
		damages = append(damages, []string{"SET", keys[0], "x"})
	}
	if store[keys[0]].Type == "hash" {
		damages = append(damages, []string{"HDEL", keys[0], []string{"rate", "interval", "scope"}[pick%3]})
	}
	for _, key := range keys[1:] {
		damages = append(damages, entryDamages(store[key], key, pick)...)
	}
	return damages
}

// entryDamages put in an entry that no script has written, or one that contradicts the others.
func entryDamages(stored model.Value, key string, pick int64) [][]string {
	damages := [][]string{{"SET", key, "x"}}
	if stored.Type == "string" {
		return damages
	}
	bad := []string{
		"x", "", layout.TokenBucketEntry(1<<53, 0, 1), layout.TokenBucketEntry(epoch, 0, 0), layout.TokenBucketEntry(epoch,
			1<<53-1, 1), layout.TokenBucketEntry(epoch, 0, 1) + "x",
	}[pick%6]
	damages = append(damages, []string{"RPUSH", key, bad})
	for i := range stored.List {
		at := strconv.Itoa(i)
		damages = append(damages,
			[]string{"LSET", key, at, bad},
			[]string{"LSET", key, at,
				layout.TokenBucketEntry(uint64(epoch+(pick-500)*1_000_000), uint64(pick%7), uint64(1+pick%3))},
		)
	}
	return damages
}
