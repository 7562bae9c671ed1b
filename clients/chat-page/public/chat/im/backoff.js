/**
 * When to connect again (IM 8.1): exponential back-off with full jitter, so that a server that
 * comes back is not met by all its clients in one second.
 */
/** The span of the first wait, milliseconds; it doubles with each failure. */
const FIRST_MS = 1_000;
const LONGEST_MS = 60_000;
/** A session of at least so long was a good one: the next wait is short again. */
const GOOD_SESSION_MS = 10_000;
/** The waits of one client. */
export class Backoff {
    random;
    #spanMs = FIRST_MS;
    /** @param random a number from 0 up to 1, drawn anew. */
    constructor(random) {
        this.random = random;
    }
    /** A session has ended that lasted so long. */
    lasted(sessionMs) {
        if (sessionMs >= GOOD_SESSION_MS)
            this.reset();
    }
    /** The next wait is short. */
    reset() {
        this.#spanMs = FIRST_MS;
    }
    /** How long to wait now, milliseconds: at least `retryAfterMs`, which the server asked for. */
    next(retryAfterMs) {
        const wait = retryAfterMs + Math.floor(this.random() * this.#spanMs);
        this.#spanMs = Math.min(this.#spanMs * 2, LONGEST_MS);
        return wait;
    }
}
