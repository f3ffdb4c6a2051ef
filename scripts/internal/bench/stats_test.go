package main

import (
	"testing"
	"time"
)

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	tests := map[string]struct {
		sorted []time.Duration
		p      int
		want   time.Duration
	}{
		"nothing":                {nil, 50, 0},
		"one value":              {hundred[:1], 99, 1},
		"two values, the half":   {hundred[:2], 50, 1},
		"two values, nearly all": {hundred[:2], 99, 2},
		"a hundred, the half":    {hundred, 50, 50},
		"a hundred, nearly all":  {hundred, 99, 99},
		"a hundred, all":         {hundred, 100, 100},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := percentile(tt.sorted, tt.p); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

func TestMedian(t *testing.T) {
	for name, tt := range map[string]struct {
		values []float64
		want   float64
	}{
		"nothing": {nil, 0},
		"odd":     {[]float64{9, 1, 5}, 5},
		"even":    {[]float64{9, 1, 5, 7}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			if got := median(tt.values); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestSummarize(t *testing.T) {
	got := summarize([]time.Duration{3, 1, 2, 4}, 2*time.Second)
	if want := (result{perSecond: 2, p50: 2, p99: 4}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
