package im

// When to connect again: exponential back-off with full jitter, after the server's hint.

const (
	backoffFirstMs   = 1_000
	backoffLongestMs = 60_000
	// goodSessionMs is the length of a session, milliseconds, after which the next wait is short again.
	goodSessionMs = 10_000
	// hintMsMax: a server cannot send a client away for longer than this.
	hintMsMax = 3_600_000
)

type backoff struct {
	spanMs int64
	// random draws a number from 0 up to, but not including, 1.
	random func() float64
}

func (b *backoff) reset() { b.spanMs = backoffFirstMs }

// next is how long to wait now, milliseconds. The jitter is added to the hint, so that clients that
// were sent away together do not come back together.
func (b *backoff) next(hintMs int64) int64 {
	wait := int64(b.random() * float64(b.spanMs))
	b.spanMs = min64(b.spanMs*2, backoffLongestMs)
	return hintMs + wait
}

func min64(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}

func max64(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}
