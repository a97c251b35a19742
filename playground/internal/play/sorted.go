package play

import "slices"

// median keeps numbers in order. Most are 0 and only counted.
type median struct {
	zeros  int
	others []int64
}

func (m *median) add(n int64) {
	if n == 0 {
		m.zeros++
		return
	}
	i, _ := slices.BinarySearch(m.others, n)
	m.others = slices.Insert(m.others, i, n)
}

// value returns the lower of the two in the middle, 0 if there are none.
func (m *median) value() int64 {
	i := (m.zeros+len(m.others)-1)/2 - m.zeros
	if i < 0 || len(m.others) == 0 {
		return 0
	}
	return m.others[i]
}
