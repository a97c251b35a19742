package stored

import (
	"regexp"
	"strconv"

	"github.com/sluice-redis/sluice/internal/layout"
)

// Quota is the state of a quota, whose count is in the summary's Permits.
type Quota struct {
	Begin int64 // of the period
}

// longestQuota has a begin of 16 digits and a count of 14. A script reads a longer one with zeros in front, too.
const longestQuota = 31

var quotaText = regexp.MustCompile(`^(\d{1,16}) (\d{1,14})$`)

func (s *Summary) readQuota(text string) {
	parts := quotaText.FindStringSubmatch(text)
	if parts == nil {
		s.damaged("it holds %s, want a begin and a count", layout.ShortQuote(text))
		return
	}
	begin, _ := strconv.ParseInt(parts[1], 10, 64)
	s.Permits, _ = strconv.ParseInt(parts[2], 10, 64)
	s.Quota = &Quota{begin}
}
