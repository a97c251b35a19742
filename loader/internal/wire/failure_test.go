package wire

import (
	"errors"
	"io"
	"testing"
)

type reply string

func (r reply) Error() string { return string(r) }
func (r reply) RedisError()   {}

func TestCodeOf(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{io.EOF, ""},
		{errors.New("READONLY in disguise"), ""},
		{reply("NOSCRIPT No matching script. Please use EVAL."), "NOSCRIPT"},
		{reply("READONLY You can't write against a read only replica. script: 2342, on @user_script:104."), "READONLY"},
		{reply("ERR Error running script (call to f_2342): @user_script:104: @user_script: 104: -READONLY You can't write against a read only replica."), "READONLY"},
		{reply("ERR Error running script (call to f_2342): @user_script:104: NOREPLICAS Not enough good replicas to write."),
			"NOREPLICAS"},
		{reply("ERR max number of clients reached"), "MAXCLIENTS"},
		{reply("ERR unknown command 'evalsha'"), "ERR"},
		{reply("LOADING"), "LOADING"},
	}
	for _, test := range tests {
		if got := CodeOf(test.err); got != test.want {
			t.Errorf("CodeOf(%v) = %q, want %q", test.err, got, test.want)
		}
	}
}
