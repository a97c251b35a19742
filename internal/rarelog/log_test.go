package rarelog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Each cause is logged once a minute, with the number that was left out; unique texts of any length keep nothing.
func TestLog(t *testing.T) {
	var out strings.Builder
	synctest.Test(t, func(t *testing.T) {
		log := New(slog.New(slog.NewTextHandler(&out, nil)))
		for second := range 121 {
			for _, about := range []string{"a", "b"} {
				log.Error("refused", about, errors.New(fmt.Sprint("why ", second)), slog.String("about", about))
			}
			time.Sleep(time.Second)
		}
		log.Reset()
		log.Error("refused", "a", errors.New("new"))
		var none *Log
		none.Log(context.Background(), slog.LevelError, "nothing", "")
		text := out.String()
		if strings.Count(text, "about=a") != 3 || strings.Count(text, "about=b") != 3 || strings.Count(text, "\n") != 7 ||
			strings.Count(text, "suppressed=59") != 4 || !strings.Contains(text, "error=new") {
			t.Error(text)
		}
		for i := range 3 * maxTopics {
			log.Error("refused", fmt.Sprint(i, strings.Repeat("x", 10_000)), nil)
		}
		size := 0
		for what := range log.topics {
			size += len(what)
		}
		if len(log.topics) > maxTopics+1 || size > maxTopics*maxTopic {
			t.Errorf("%d topics, %d bytes", len(log.topics), size)
		}
	})
}
