package model

import (
	"fmt"
	"strconv"
	"strings"
)

const badQuota = "BADSTATE quota: want a begin and a count"

// quota is quota_v1.
func quota(c call) Outcome {
	limit, permits, reported := c.args.number["limit"], c.args.number["permits"], c.args.number["reported"]
	bounds := []int64{
		c.args.number["first"], c.args.number["second"], c.args.number["third"], c.args.number["after"],
	}
	for i := range 3 {
		if bounds[i] >= bounds[i+1] {
			return c.fails("BADARG first: want first < second < third < after")
		}
	}
	if permits > limit {
		return c.fails("BADARG permits: want up to limit")
	}
	stored, text, count, bad := c.quota()
	if bad != "" {
		return c.fails(bad)
	}

	clock := c.now
	if stored > c.now && stored-c.now <= 60_000_000 {
		clock = stored
	}
	if clock < bounds[0] || clock >= bounds[3] {
		return c.fails("BADARG first: want periods around the server's clock")
	}
	expires, period := int64(0), 0
	for period < 2 && clock >= bounds[period+1] {
		period++
	}
	begin, ends := bounds[period], bounds[period+1]
	if begin <= stored && stored <= clock {
		begin, expires = stored, c.store[c.keys[0]].Expires
	} else {
		text, count = fmt.Sprint(begin), 0
	}

	count = min(count+reported, 1e13)
	granted, wait, reset := int64(0), int64(0), int64(0)
	switch {
	case count+max(permits, 1) > limit:
		wait = ends - c.now
	case permits > 0:
		granted = permits
		count += granted
	}
	outcome := Outcome{After: c.store}
	if granted+reported > 0 {
		outcome.After = c.store.With(c.keys[0], Value{
			Type: "string", Text: fmt.Sprint(text, " ", count), Expires: max(expires, c.now/1000+milliseconds(ends-c.now)),
		})
	}
	if count > 0 {
		reset = ends - c.now
	}
	outcome.Reply = []int64{granted, max(limit-count, 0), wait, reset, c.now, begin, ends, count}
	return outcome
}

// quota returns what is stored, and the text of its begin.
func (c call) quota() (begin int64, text string, count int64, bad string) {
	value, ok := c.holds(c.keys[0], "string")
	if !ok {
		return 0, "", 0, wrongType
	}
	if value.Type == "" {
		return 0, "0", 0, ""
	}
	text, rest, _ := strings.Cut(value.Text, " ")
	begin, err := fromDigits(text, maxTime)
	if err == nil {
		count, err = fromDigits(rest, 1e13)
	}
	if err != nil {
		return 0, "", 0, badQuota
	}
	return begin, text, count, ""
}

// fromDigits reads a number of digits alone, up to most.
func fromDigits(text string, most uint64) (int64, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err == nil && n > most {
		err = strconv.ErrRange
	}
	return int64(n), err
}

// quotaReturn is quota_return_v1.
func quotaReturn(c call) Outcome {
	begin, text, count, bad := c.quota()
	if bad != "" {
		return c.fails(bad)
	}
	outcome := Outcome{Reply: []int64{0}, After: c.store}
	returned := min(count, c.args.number["permits"])
	if begin != c.args.number["begin"] || returned == 0 {
		return outcome
	}
	value := c.store[c.keys[0]]
	value.Text = fmt.Sprint(text, " ", count-returned)
	if value.Expires > 0 {
		value.Expires = max(value.Expires, c.now/1000+1) // where it is overdue
	}
	return Outcome{Reply: []int64{returned}, After: c.store.With(c.keys[0], value)}
}
