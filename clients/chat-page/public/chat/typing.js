/**
 * Who is typing: what others say of it, for as long as that is worth something, and when it is said
 * of whoever sits here.
 *
 * Knows no page, no clock and no client. Invariant: nobody types for longer than {@link SHOWN_MS}
 * after the last that was heard of it; it is said not more often than each {@link AGAIN_MS}.
 */
/** What was heard of somebody is believed for so long, milliseconds. */
export const SHOWN_MS = 10_000;
/** While somebody goes on writing it is said again after so long, milliseconds. */
export const AGAIN_MS = 4_000;
/** Who has not written for so long has stopped, milliseconds. */
export const PAUSE_MS = 5_000;
/** Those whose names are told at once; of more only how many they are. */
export const NAMED_MAX = 3;
/** Those who are remembered. */
const TYPISTS_MAX = 64;
/** Those who write in one conversation. */
export class Typists {
    #until = new Map();
    /** Somebody writes, or does not any more. True: somebody else writes now than before. */
    heard(who, isTyping, now) {
        const was = this.#until.has(who);
        this.#until.delete(who);
        if (isTyping && this.#until.size < TYPISTS_MAX)
            this.#until.set(who, now + SHOWN_MS);
        return was !== this.#until.has(who);
    }
    /** Those who write now, in the order in which they were heard of last. */
    now(now) {
        for (const [who, until] of this.#until)
            if (until <= now)
                this.#until.delete(who);
        return [...this.#until.keys()];
    }
    /** When one of them is not believed any more. */
    get wakeAt() {
        return Math.min(Infinity, ...this.#until.values());
    }
}
/** Whoever writes here. */
export class OwnTyping {
    #peer;
    #toldAt = -Infinity;
    #wroteAt = 0;
    /** Something was written to somebody; an empty text: nothing is there any more. */
    writes(peer, text, now) {
        const before = this.#peer === undefined || this.#peer === peer ? [] : this.#ends("paused");
        if (text.trim() === "")
            return [...before, ...this.#ends("active")];
        this.#wroteAt = now;
        if (this.#peer === peer && now - this.#toldAt < AGAIN_MS)
            return before;
        [this.#peer, this.#toldAt] = [peer, now];
        return [...before, { peer, state: "composing" }];
    }
    /** It was said, or whoever wrote goes elsewhere. What is said tells by itself that it is over. */
    leaves(isSaid) {
        return isSaid ? this.#forgets() : this.#ends("paused");
    }
    /** Time has passed. */
    wake(now) {
        return now >= this.wakeAt ? this.#ends("paused") : [];
    }
    get wakeAt() {
        return this.#peer === undefined ? Infinity : this.#wroteAt + PAUSE_MS;
    }
    #ends(state) {
        const peer = this.#peer;
        this.#forgets();
        return peer === undefined ? [] : [{ peer, state }];
    }
    #forgets() {
        [this.#peer, this.#toldAt] = [undefined, -Infinity];
        return [];
    }
}
