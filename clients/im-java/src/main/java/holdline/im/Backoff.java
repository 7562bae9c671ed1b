package holdline.im;

import java.util.function.DoubleSupplier;

/** When to connect again: exponential back-off with full jitter, after the server's hint. */
final class Backoff {
    private static final long FIRST_MS = 1_000;
    private static final long LONGEST_MS = 60_000;
    /** Length of a session, milliseconds, after which the next wait is short again. */
    static final long GOOD_SESSION_MS = 10_000;
    /** A server cannot send a client away for longer than this. */
    static final long HINT_MS_MAX = 3_600_000;

    private final DoubleSupplier random;
    private long spanMs = FIRST_MS;

    Backoff(DoubleSupplier random) {
        this.random = random;
    }

    void reset() {
        spanMs = FIRST_MS;
    }

    /**
     * How long to wait now. The jitter is added to the hint, so that clients that were sent away
     * together do not come back together.
     */
    long next(long hintMs) {
        long wait = (long) (random.getAsDouble() * spanMs);
        spanMs = Math.min(spanMs * 2, LONGEST_MS);
        return hintMs + wait;
    }
}
