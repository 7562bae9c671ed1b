/**
 * Signs of life (IM 7.1): when to say something, and when the server counts as gone.
 */

/** How long a server may take to say anything at all when it was asked, milliseconds. */
const ANSWER_MS = 30_000;
/** The same after a nudge: the connection is likely to be dead. */
const PROBE_MS = 10_000;

/** The clock of one connection. */
export class Keepalive {
  #silenceMs = Infinity;
  #saidAt = 0;
  /** Something must be heard until then. */
  #deadAt = Infinity;

  /** The session begins: the client may be silent for so long. */
  begin(now: number, silenceMs: number): void {
    this.#silenceMs = silenceMs;
    this.#saidAt = now;
    this.#deadAt = Infinity;
  }

  /** The client said something. */
  said(now: number): void {
    this.#saidAt = now;
  }

  /** It wants an answer. */
  asked(now: number): void {
    this.#deadAt = Math.min(this.#deadAt, now + ANSWER_MS);
  }

  /** It wants one soon. */
  probe(now: number): void {
    this.#deadAt = Math.min(this.#deadAt, now + PROBE_MS);
  }

  /** The server said something. */
  heard(): void {
    this.#deadAt = Infinity;
  }

  isPingDue(now: number): boolean {
    return now >= this.#saidAt + this.#silenceMs;
  }

  isDead(now: number): boolean {
    return now >= this.#deadAt;
  }

  get wakeAt(): number {
    return Math.min(this.#saidAt + this.#silenceMs, this.#deadAt);
  }
}
