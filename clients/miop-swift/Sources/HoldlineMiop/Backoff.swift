// When to connect again: exponential back-off with full jitter, never before the server's hint.

struct Backoff {
    /// A session of at least so long was a good one: the next wait is short again.
    private static let goodSessionMs: Int64 = 10_000
    /// A server cannot send a device away for longer than this.
    private static let hintMsMax: Int64 = 3_600_000

    let firstMs, longestMs: Int64
    private var spanMs: Int64

    init(firstMs: Int64, longestMs: Int64) {
        (self.firstMs, self.longestMs, spanMs) = (firstMs, longestMs, firstMs)
    }

    mutating func lasted(_ sessionMs: Int64) {
        if sessionMs >= Backoff.goodSessionMs { spanMs = firstMs }
    }

    /// How long to wait now; `random` is a number from 0 up to 1.
    mutating func next(_ random: Double, hintMs: Int64) -> Int64 {
        let wait = Int64(random * Double(spanMs))
        spanMs = min(spanMs * 2, longestMs)
        return max(wait, min(hintMs, Backoff.hintMsMax))
    }
}
