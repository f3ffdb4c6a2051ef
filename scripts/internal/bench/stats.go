package main

import (
	"slices"
	"time"
)

// result is what one arm did in one stretch of time.
type result struct {
	perSecond float64
	p50, p99  time.Duration
}

func summarize(latencies []time.Duration, took time.Duration) result {
	slices.Sort(latencies)
	return result{
		perSecond: float64(len(latencies)) / took.Seconds(),
		p50:       percentile(latencies, 50),
		p99:       percentile(latencies, 99),
	}
}

// percentile of a sorted list: the smallest value that p percent of all do not exceed.
func percentile(sorted []time.Duration, p int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

func median[T ~int64 | ~float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[half-1] + sorted[half]) / 2
	}
	return sorted[half]
}

// medians of each figure by itself.
func medians(results []result) (m result) {
	var rates []float64
	var p50, p99 []time.Duration
	for _, r := range results {
		rates, p50, p99 = append(rates, r.perSecond), append(p50, r.p50), append(p99, r.p99)
	}
	return result{median(rates), median(p50), median(p99)}
}
