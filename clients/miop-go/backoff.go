package miop

// When to connect again: exponential back-off with full jitter, so that a server that comes back
// is not met by all its devices in one second.

type backoff struct {
	firstMs, longestMs, spanMs int64
	// random draws a number from 0 up to, but not including, 1.
	random func() float64
}

func (b *backoff) reset() { b.spanMs = b.firstMs }

// next is how long to wait now, milliseconds: never less than the server asked for.
func (b *backoff) next(retryAfterMs int64) int64 {
	wait := int64(b.random() * float64(b.spanMs))
	b.spanMs = minOf(b.spanMs*2, b.longestMs)
	return maxOf(wait, retryAfterMs)
}

func minOf(a, b int64) int64 {
	if a < b {
		return a
	}
	return b
}

func maxOf(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}
