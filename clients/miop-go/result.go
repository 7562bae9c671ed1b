package miop

import (
	"errors"
	"strconv"
)

// Result is a code of the server (docs/wire/miop.md, section 9).
type Result uint8

// Results.
const (
	ResultDone             Result = 0
	ResultResumed          Result = 1
	ResultBadFrame         Result = 10
	ResultVersion          Result = 11
	ResultTooLarge         Result = 12
	ResultAuthFailed       Result = 20
	ResultClockSkew        Result = 21
	ResultReplay           Result = 22
	ResultUnknownProduct   Result = 23
	ResultDeviceBlocked    Result = 24
	ResultBusy             Result = 30
	ResultQuota            Result = 31
	ResultDraining         Result = 32
	ResultRedirect         Result = 33
	ResultReplaced         Result = 40
	ResultKicked           Result = 41
	ResultHeartbeatTimeout Result = 42
	ResultSlowConsumer     Result = 43
	ResultBindTimeout      Result = 44
	ResultInternal         Result = 50
)

var resultNames = map[Result]string{
	ResultAuthFailed: "auth_failed",
	ResultClockSkew:  "clock_skew", ResultReplay: "replay",
	ResultUnknownProduct: "unknown_product", ResultDeviceBlocked: "device_blocked",
	ResultBusy: "busy", ResultQuota: "quota", ResultDraining: "draining",
	ResultRedirect: "redirect", ResultReplaced: "replaced", ResultKicked: "kicked",
	ResultHeartbeatTimeout: "heartbeat_timeout", ResultSlowConsumer: "slow_consumer",
	ResultBindTimeout: "bind_timeout", ResultInternal: "internal",
}

// String is the word of State.Why: result_N for those that have none.
func (r Result) String() string {
	if name, known := resultNames[r]; known {
		return name
	}
	return "result_" + strconv.Itoa(int(r))
}

// isFinal: connecting again would not help.
func (r Result) isFinal() bool {
	return r == ResultVersion || r/10 == 2 || r == ResultReplaced || r == ResultKicked
}

// Errors of Report, Ack and Pull.
var (
	ErrTooLarge  = errors.New("miop: larger than the server accepts")
	ErrQueueFull = errors.New("miop: too many Reports are waiting")
	ErrNotBound  = errors.New("miop: not connected")
	ErrUnknown   = errors.New("miop: no such push is waiting for an acknowledgement")
)

// EndedError is returned by Run when connecting again would not help.
type EndedError struct {
	// Why is a word as in State.Why.
	Why string
	// Result is the server's, 0 if it gave none.
	Result Result
}

func (e *EndedError) Error() string { return "miop: the server ended the session: " + e.Why }
