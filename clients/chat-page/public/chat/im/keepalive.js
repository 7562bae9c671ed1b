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
    begin(now, silenceMs) {
        this.#silenceMs = silenceMs;
        this.#saidAt = now;
        this.#deadAt = Infinity;
    }
    /** The client said something. */
    said(now) {
        this.#saidAt = now;
    }
    /** It wants an answer. */
    asked(now) {
        this.#deadAt = Math.min(this.#deadAt, now + ANSWER_MS);
    }
    /** It wants one soon. */
    probe(now) {
        this.#deadAt = Math.min(this.#deadAt, now + PROBE_MS);
    }
    /** The server said something. */
    heard() {
        this.#deadAt = Infinity;
    }
    isPingDue(now) {
        return now >= this.#saidAt + this.#silenceMs;
    }
    isDead(now) {
        return now >= this.#deadAt;
    }
    get wakeAt() {
        return Math.min(this.#saidAt + this.#silenceMs, this.#deadAt);
    }
}
