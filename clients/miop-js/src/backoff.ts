/** When to connect again: exponential back-off with full jitter, never before the server's hint. */

/** A session of at least so long was a good one: the next wait is short again. Milliseconds. */
const GOOD_SESSION_MS = 10_000;
/** A server cannot send a device away for longer than this. */
const HINT_MS_MAX = 3_600_000;

/** The waits of one client, milliseconds. */
export class Backoff {
  #spanMs: number;

  /** @param random a number from 0 up to 1, drawn anew. */
  constructor(
    private readonly random: () => number,
    private readonly firstMs: number,
    private readonly longestMs: number,
  ) {
    this.#spanMs = firstMs;
  }

  /** A session has ended that lasted so long. */
  lasted(sessionMs: number): void {
    if (sessionMs >= GOOD_SESSION_MS) this.#spanMs = this.firstMs;
  }

  /** How long to wait now. */
  next(hintMs: number): number {
    const wait = Math.floor(this.random() * this.#spanMs);
    this.#spanMs = Math.min(this.#spanMs * 2, this.longestMs);
    return Math.max(wait, Math.min(hintMs, HINT_MS_MAX));
  }
}
