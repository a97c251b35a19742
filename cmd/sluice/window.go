package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
)

// window is a limit as people say it: limit=100/1m.
type window struct {
	text    string // the length as given, such as "1m"
	permits string // digits
	us      int64  // the length in microseconds
}

// cutWindows takes the arguments of the form limit=100/1m out of args.
func cutWindows(args []string) (windows []window, rest []string, err error) {
	for _, arg := range args {
		value, found := strings.CutPrefix(arg, "limit=")
		permits, text, isWindow := strings.Cut(value, "/")
		if !found || !isWindow {
			rest = append(rest, arg)
			continue
		}
		d, err := parseLength(text)
		if err != nil || d <= 0 || d%time.Microsecond != 0 || permits == "" || strings.Trim(permits, "0123456789") != "" {
			return nil, nil, usagef("limit is %s: want permits and a window, as in limit=100/1m", given(value))
		}
		windows = append(windows, window{text: text, permits: permits, us: d.Microseconds()})
	}
	if len(windows) > maxWindows {
		return nil, nil, usagef("%d windows are given: want 1 to %d", len(windows), maxWindows)
	}
	return windows, rest, nil
}

const (
	maxWindows = 8
	maxSlices  = 10_000
)

// checkWindows refuses other arguments that say the same as limit=100/1m.
func (w words) checkWindows() error {
	if len(w.windows) == 0 {
		return nil
	}
	same := w.other(func(name string) bool {
		return name != "limit" && name != "window" && !strings.HasPrefix(name, "limit_") && !strings.HasPrefix(name, "slices")
	})
	if same == "" {
		return nil
	}
	return usagef("limit=%s/%s says permits and window: want no %s beside it", w.windows[0].permits, w.windows[0].text,
		given(same))
}

// fitted returns the words with the windows as arguments of the key's script. A slice_ring gets one slice more than
// covers the window and the age of leases, as from the loader.
func (w words) fitted(key stored.Key, ring *stored.Ring) (words, error) {
	if len(w.windows) == 0 {
		return w, nil
	}
	fitted := words{values: maps.Clone(w.values), used: w.used, windows: w.windows}
	if !key.IsRing() {
		if script, _ := key.Script(); hasWindow(script) && len(w.windows) == 1 {
			fitted.values["limit"] = w.windows[0].permits
			fitted.values["window"] = strconv.FormatInt(w.windows[0].us, 10)
		}
		return fitted, nil
	}
	slice := sliceOf(key, ring)
	if slice == 0 {
		return w, nil
	}
	for i, window := range w.windows {
		count := (window.us+key.LeaseAge()+slice-1)/slice + 1
		if count > maxSlices {
			return w, fmt.Errorf("a window of %s takes %d slices of %s: a ring has up to %d", window.text, count,
				length(slice), maxSlices)
		}
		fitted.values[fmt.Sprint("slices_", i+1)] = strconv.FormatInt(count, 10)
		fitted.values[fmt.Sprint("limit_", i+1)] = window.permits
	}
	return fitted, nil
}

// sliceOf returns the length of a ring's slices in microseconds: the stored one, else that in the key, else 0.
func sliceOf(key stored.Key, ring *stored.Ring) int64 {
	if ring != nil {
		return ring.Slice
	}
	if len(key.Parts) == 0 {
		return 0
	}
	slice, _ := strconv.ParseInt(key.Parts[0], 10, 64)
	return slice
}

// hasWindow reports whether a script has one limit and one window.
func hasWindow(script sluice.Script) bool { return takes(script, "limit") && takes(script, "window") }

// unused returns an error for the first argument that no view uses, if there are views.
func (i inspection) unused(views []view) error {
	if len(views) == 0 {
		return nil
	}
	if len(i.words.windows) > 0 && !slices.ContainsFunc(views, i.usesWindows) {
		return i.windowsNotUsed(views)
	}
	used := func(name string) bool {
		return slices.ContainsFunc(views, func(v view) bool { return i.uses(v, name) })
	}
	if name := i.words.other(used); name != "" {
		return notUsed(views, name)
	}
	return nil
}

func notUsed(views []view, name string) error {
	if slices.ContainsFunc(views, func(v view) bool { return v.Script != views[0].Script }) {
		return usagef("no script of what is stored there uses %s: want limit=100/1m, burst= for gcra", given(name))
	}
	want := "want " + callersForm(views[0].key)
	if views[0].key.Config().IsConfig() {
		want = "its rate is stored"
	}
	return usagef("%s does not use %s: %s", views[0].Script, given(name), want)
}

// windowsNotUsed returns the error for windows that no view uses.
func (i inspection) windowsNotUsed(views []view) error {
	find := func(is func(sluice.Script) bool) int {
		return slices.IndexFunc(views, func(v view) bool { script, _ := v.key.Script(); return is(script) })
	}
	if at := find(hasWindow); at >= 0 {
		return usagef("%s has one window: want %s", views[at].Script, callersForm(views[at].key))
	}
	if at := find(func(script sluice.Script) bool { return takes(script, "limit") }); at >= 0 {
		first := i.words.windows[0]
		return usagef("limit=%s/%s: %s has no window: want limit=%s", first.permits, first.text, views[at].Script,
			first.permits)
	}
	return notUsed(views, "limit")
}

func (i inspection) usesWindows(v view) bool {
	script, _ := v.key.Script()
	return v.key.IsRing() || hasWindow(script) && len(i.words.windows) == 1
}

// uses reports whether an argument says something about a view: a part of its key, or an argument of its script that
// is not stored and means something in a look.
func (i inspection) uses(v view, name string) bool {
	switch name {
	case "permits", "max_wait", "id", "ttl", "renew":
		return false
	case "prefix", "lease_age":
		return i.named
	case "client":
		return i.named || v.key.Config().IsConfig()
	case "slice":
		return i.named || v.key.IsRing()
	case "rate", "interval", "scope":
		if v.Config != nil {
			return false
		}
	}
	script, _ := v.key.Script()
	return takes(script, name)
}

// callersForm is an example of the arguments that a look at the key wants.
func callersForm(key stored.Key) string {
	script, _ := key.Script()
	switch {
	case key.IsRing():
		return "limit=100/1m limit=1000/1h"
	case takes(script, "burst"):
		return "limit=10/1s burst=20"
	case takes(script, "renew"):
		return "limit=20"
	case key.Config().IsConfig():
		return "rate=50 interval=1s"
	}
	return "limit=3/1m"
}

// windowsText describes each window of a look at a ring: "window 1m: 10 of 100; window 1h: 9 of 9: this one refuses".
func (v view) windowsText() string {
	var parts []string
	slice := sliceOf(v.key, v.summary.Ring)
	for i := 1; i <= v.asked.groups(); i++ {
		name := length(v.asked.value(fmt.Sprint("slices_", i)) * slice)
		if len(v.windows) >= i {
			name = v.windows[i-1].text
		}
		count, limit := v.Left[fmt.Sprint("count_", i)], v.asked.value(fmt.Sprint("limit_", i))
		part := fmt.Sprintf("window %s: %d of %d", name, count, limit)
		if count >= limit {
			part += ": this one refuses"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

// groups returns how many windows the arguments of a slice_ring name.
func (t attempt) groups() int {
	last := repeatedTo(len(t.args), t.script.Args)[len(t.args)-1].Name
	n, _ := strconv.Atoi(strings.TrimPrefix(last, "limit_"))
	return n
}

// value returns the integer argument of a name, or 0.
func (t attempt) value(name string) int64 {
	for i, field := range repeatedTo(len(t.args), t.script.Args) {
		if field.Name == name {
			n, _ := strconv.ParseInt(fmt.Sprint(t.args[i]), 10, 64)
			return n
		}
	}
	return 0
}

// missesWindows reports whether the ring is longer than the windows of the look: then it was written with a longer one.
func (v view) missesWindows() bool {
	if v.State != stateLive || v.Ring == nil {
		return false
	}
	widest := int64(0)
	for i := 1; i <= v.asked.groups(); i++ {
		widest = max(widest, v.asked.value(fmt.Sprint("slices_", i)))
	}
	return widest < v.Ring.Size
}

// missingForm is the argument for a window that the look lacks.
func (v view) missingForm() string {
	if len(v.windows) > 0 {
		longest := time.Duration((v.Ring.Size-1)*v.Ring.Slice-v.LeaseAge) * time.Microsecond
		return "limit=N/" + strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(longest.String())
	}
	n := v.asked.groups() + 1
	return fmt.Sprintf("slices_%d= limit_%d=", n, n)
}
