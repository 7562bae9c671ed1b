/**
 * How far somebody has read, and when the server is told: at once, and then not more often than
 * others can see.
 *
 * Knows no page, no clock and no client. Invariant: one word is on its way at a time; of each
 * conversation the furthest place is told in the end; at most {@link READINGS_MAX} wait.
 */
/** Conversations that were read and of which the server is not told yet. */
export const READINGS_MAX = 50;
/** Between two words, milliseconds. */
export const GAP_MS = 300;
/** After a word that the server could not take now, milliseconds. */
const AGAIN_MS = 3_000;
/** What was read. */
export class Reading {
    #seen = new Map();
    #told;
    #notBefore = 0;
    get wakeAt() {
        return this.#told === undefined && this.#seen.size > 0 ? this.#notBefore : Infinity;
    }
    /** A conversation was seen up to this place; `known`: up to where the server knows it. */
    sees(peer, upto, known) {
        const before = Math.max(known, this.#seen.get(peer) ?? 0);
        const isTold = this.#told?.peer === peer && upto <= this.#told.upto;
        if (upto <= before || isTold)
            return;
        this.#seen.set(peer, upto);
        const [first] = this.#seen.keys();
        if (this.#seen.size > READINGS_MAX)
            this.#seen.delete(first);
    }
    /** What is to be told now. */
    due(now) {
        if (this.#told !== undefined || now < this.#notBefore)
            return undefined;
        const [first] = this.#seen;
        if (first === undefined)
            return undefined;
        const [peer, upto] = first;
        this.#seen.delete(peer);
        this.#told = { peer, upto };
        return this.#told;
    }
    /** It is stored, or never will be. */
    done(now) {
        this.#told = undefined;
        this.#notBefore = now + GAP_MS;
    }
    /** It could not be stored now. */
    failed(now) {
        const told = this.#told;
        this.#told = undefined;
        this.#notBefore = now + AGAIN_MS;
        if (told === undefined)
            return;
        const upto = Math.max(told.upto, this.#seen.get(told.peer) ?? 0);
        this.#seen.set(told.peer, upto);
    }
}
