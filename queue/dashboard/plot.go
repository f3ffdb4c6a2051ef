package dashboard

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The plot's own coordinates; the style sheet stretches it.
const (
	plotWidth  = 240
	plotHeight = 40
	plotGap    = 3 * sampleEvery // a longer silence breaks the line
)

// plot is one small line over time, drawn as SVG.
type plot struct {
	Name   string
	Line   string // path data
	Area   string
	Now    string
	Peak   string
	Span   string
	Width  int
	Height int
}

type point struct {
	at    time.Time
	value float64
}

// plots draws the samples. It needs three: two differences make the shortest line.
func plots(list []sample) []plot {
	if len(list) < 3 {
		return nil
	}
	var depth, oldest, rate []point
	for i, s := range list {
		depth = append(depth, point{s.at, float64(s.depth)})
		oldest = append(oldest, point{s.at, s.oldest.Seconds()})
		if i == 0 {
			continue
		}
		// Retention takes rows away, which is no negative work.
		minutes := s.at.Sub(list[i-1].at).Minutes()
		if minutes <= 0 {
			continue
		}
		rate = append(rate, point{s.at, float64(max(0, s.settled-list[i-1].settled)) / minutes})
	}
	whole := func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }
	return []plot{
		draw("Deliveries pending", depth, whole),
		draw("Oldest pending", oldest, func(v float64) string { return span(time.Duration(v) * time.Second) }),
		draw("Settled per minute", rate, func(v float64) string {
			if v < 10 {
				v = math.Round(v*10) / 10
				return strconv.FormatFloat(v, 'f', -1, 64)
			}
			return whole(v)
		}),
	}
}

func draw(name string, points []point, format func(float64) string) plot {
	p := plot{Name: name, Width: plotWidth, Height: plotHeight}
	if len(points) == 0 {
		return p
	}
	first, last := points[0], points[len(points)-1]
	peak := 0.0
	for _, x := range points {
		peak = max(peak, x.value)
	}
	p.Now, p.Peak, p.Span = format(last.value), format(peak), span(last.at.Sub(first.at))
	length := max(last.at.Sub(first.at), time.Second)
	var line, area strings.Builder
	var started float64
	close := func(x float64) {
		fmt.Fprintf(&area, "L%.1f %dL%.1f %dZ", x, plotHeight, started, plotHeight)
	}
	var before point
	var x float64
	for i, at := range points {
		next := float64(plotWidth) * float64(at.at.Sub(first.at)) / float64(length)
		y := float64(plotHeight-1) - at.value/max(peak, 1e-9)*float64(plotHeight-3)
		move := "L"
		if i == 0 || at.at.Sub(before.at) > plotGap {
			if i > 0 {
				close(x)
			}
			move, started = "M", next
		}
		fmt.Fprintf(&line, "%s%.1f %.1f", move, next, y)
		fmt.Fprintf(&area, "%s%.1f %.1f", move, next, y)
		before, x = at, next
	}
	close(x)
	p.Line, p.Area = line.String(), area.String()
	return p
}
