package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"math"
	"os"
	"text/template"
)

//go:embed picture.svg.tmpl
var pictureText string

var pictureTemplate = template.Must(template.New("picture").Parse(pictureText))

// The measures of the picture.
const (
	pictureWidth = 880.0
	barsBegin    = 150.0
	barsEnd      = 770.0
	barsTop      = 60.0
	panelsApart  = 36.0
)

// The colours of the bars. They stand in attributes: not every renderer of SVG reads style sheets.
const (
	blue      = "#0969da"
	lightBlue = "#54aeff"
	grey      = "#818b98"
	lightGrey = "#c8d1da"
)

// A picture is two panels of bars: what a call costs, and what the worst one does.
type picture struct {
	Width, Height float64
	About         string
	Panels        []*panel
}

type panel struct {
	Top        float64
	Head, Text string
	Ticks      []tick
	Bars       []bar
	scale      func(value float64) float64 // to 0..1
	bottom     float64
}

type tick struct {
	X, Bottom, Label float64
	Text             string
	Mark             bool // a bound, not a step
}

type bar struct {
	Name, Fill, Value        string
	NameX, NameY, EndX, EndY float64
	X, Y, Length, Thick      float64
}

// add draws bars under one name, each with its value.
func (p *panel) add(name string, thick float64, fill []string, values []float64, text []string) {
	for i, value := range values {
		b := bar{Fill: fill[i], Value: text[i], X: barsBegin, Y: p.bottom + float64(i)*(thick+1), Thick: thick}
		b.Length = round(max(p.scale(value), 0.002) * (barsEnd - barsBegin))
		b.EndX, b.EndY = round(b.X+b.Length+6), round(b.Y+thick/2+4)
		if i == 0 {
			b.Name, b.NameX, b.NameY = name, barsBegin-10, round(p.bottom+float64(len(values))*(thick+1)/2+4)
		}
		p.Bars = append(p.Bars, b)
	}
	p.bottom += float64(len(values))*(thick+1) + 9
}

// axis draws the steps behind the bars, once all are there.
func (p *panel) axis(values []float64, text func(float64) string, mark float64) {
	for _, value := range values {
		x := round(barsBegin + p.scale(value)*(barsEnd-barsBegin))
		p.Ticks = append(p.Ticks, tick{x, p.bottom, p.bottom + 14, text(value), value == mark})
	}
	p.bottom += 20
}

func round(x float64) float64 { return math.Round(x*10) / 10 }

// draw writes the picture of the results.
func (r *Results) draw(path string) error {
	costs, worst := r.costPanel(), r.worstPanel()
	worst.Top = costs.bottom + panelsApart
	var text bytes.Buffer
	err := pictureTemplate.Execute(&text, picture{
		Width: pictureWidth, Height: worst.Top + worst.bottom + 4, Panels: []*panel{costs, worst},
		About: fmt.Sprintf("%s, %s, %s.", r.Server, r.CPU, r.Date),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(path, text.Bytes(), 0o644)
}

// most is where the scale of costs ends: a longer bar is cut, and says its value.
const most = 8.0

// costPanel shows grants and denials of every script and way.
func (r *Results) costPanel() *panel {
	p := &panel{
		Head:  "Server time of a call, as a multiple of the floor",
		Text:  "Upper bar: granted, 100 permits live. Lower bar: denied, limit 100. Blue: ours. Grey: other ways in use.",
		scale: func(value float64) float64 { return min(value, most) / most }, bottom: barsTop,
	}
	for _, subject := range r.subjects() {
		values := []float64{r.ratio(subject.Subject, granted, 100), r.ratio(subject.Subject, denied, 100)}
		fill := []string{grey, lightGrey}
		if subject.Ours {
			fill = []string{blue, lightBlue}
		}
		p.add(subject.Subject, 11, fill, values, []string{times(values[0]), times(values[1])})
	}
	p.axis([]float64{0, 1, 2, 3, 4, 5, 6, 7, 8}, func(v float64) string {
		if v == 1 {
			return "floor"
		}
		return fmt.Sprint(v)
	}, 1)
	return p
}

// worstPanel shows the longest single call of every script and way, on a scale of powers of ten.
func (r *Results) worstPanel() *panel {
	p := &panel{
		Head:  "The worst single call, on the largest limiter that was measured, whatever has expired",
		Text:  "Server time, on a logarithmic scale. No call of ours is to take more than 1 ms.",
		scale: func(us float64) float64 { return min(math.Log10(max(us, 1))/7, 1) }, bottom: barsTop,
	}
	for _, worst := range r.longest() {
		fill := grey
		if worst.Ours {
			fill = blue
		}
		text := fmt.Sprintf("%s at %s", duration(worst.Median), count(worst.Entries))
		p.add(worst.Subject, 14, []string{fill}, []float64{worst.Median}, []string{text})
	}
	p.axis([]float64{1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7}, duration, 1000)
	return p
}

func times(ratio float64) string { return fmt.Sprintf("%.1f", ratio) }
