package holdline.miop;

import java.util.function.DoubleSupplier;

/**
 * When to connect again: exponential back-off with full jitter, so that a server that comes back
 * is not met by all its devices in one second.
 */
final class Backoff {
    private final long firstMs;
    private final long longestMs;
    private final DoubleSupplier random;
    private long spanMs;

    Backoff(long firstMs, long longestMs, DoubleSupplier random) {
        this.firstMs = firstMs;
        this.longestMs = longestMs;
        this.random = random;
        reset();
    }

    void reset() {
        spanMs = firstMs;
    }

    /** How long to wait now: never less than the server asked for. */
    long next(long retryAfterMs) {
        long wait = (long) (random.getAsDouble() * spanMs);
        spanMs = Math.min(spanMs * 2, longestMs);
        return Math.max(wait, retryAfterMs);
    }
}
