package queue

import (
	"context"
	"slices"
)

// numbering says which number a row gets in the target. Rows before the first of old keep theirs.
type numbering struct{ old, new []int64 }

func (n numbering) of(number int64) (int64, bool) {
	if len(n.old) == 0 || number < n.old[0] {
		return number, true
	}
	i, ok := slices.BinarySearch(n.old, number)
	if !ok {
		return 0, false
	}
	return n.new[i], true
}

// add continues the numbering with the row that was given a number at a time in microseconds. In
// the target a number is not less than that time, and the order stays.
func (n *numbering) add(number, at, last int64) int64 {
	to := max(number, at, last+1)
	if to != number || len(n.old) > 0 {
		n.old, n.new = append(n.old, number), append(n.new, to)
	}
	return to
}

// renumber plans the numbers of deliveries and runs. SQLite finds what is newer than a moment by
// its number alone: there a number is at least the time at which the row was made, while Postgres
// counts from 1. The plan follows from the source alone, so that an interrupted copy goes on with
// the same one.
func (c *copying) renumber(ctx context.Context) error {
	if c.to.Kind() != "sqlite" {
		return nil
	}
	c.numbers = map[Numbered]numbering{}
	for kind, t := range map[Numbered]*Table{
		DeliveryNumber: {Name: "deliveries", Key: words("seq"), Int: words("seq received_at")},
		RunNumber:      {Name: "runs", Key: words("id"), Int: words("id created_at")},
	} {
		var n numbering
		var last int64
		_, err := c.read(ctx, c.from, t, nil, -1, func(rows []Row) error {
			for _, r := range rows {
				last = n.add(r[0].(int64), r[1].(int64), last)
			}
			return nil
		})
		if err != nil {
			return err
		}
		c.numbers[kind] = n
	}
	return nil
}
