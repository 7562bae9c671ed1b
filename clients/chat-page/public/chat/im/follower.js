/**
 * How far this device is in its account's inbox, and what it does to go on (IM 5).
 *
 * Knows no timers and no frames: entries go in, those that are next come out. Invariant: what it
 * hands out it hands out once, in the inbox's order, without a gap but for what this device has
 * sent itself.
 */
/** Entries that are handed out before they are acknowledged, if more come at once (IM 5.3: 64). */
const UNACKNOWLEDGED_MAX = 32;
/** The longest that something is here and not acknowledged, milliseconds (IM 5.5). */
const ACKNOWLEDGE_MS = 1_000;
/** After a pull that the server did not do, milliseconds. */
const PULL_AGAIN_MS = 1_000;
/** A device on its way through its inbox. */
export class Follower {
    #last;
    #head;
    #acknowledged;
    #acknowledgeAt = Infinity;
    #isPulling = false;
    /** Until it has pulled up to the head, the server sends nothing by itself (IM 5.2). */
    #mustPull;
    #pullAt = 0;
    /** Messages that it sent itself and whose places it has not passed: they do not come back. */
    #own = 0;
    /**
     * @param last the last place that was handed out here.
     * @param cursor how far the server says this device has acknowledged.
     * @param head the last place of the inbox.
     */
    constructor(last, cursor, head) {
        this.#last = last;
        this.#head = head;
        this.#acknowledged = cursor;
        this.#mustPull = cursor !== head || last !== cursor;
        this.#acknowledgeAt = last > cursor ? 0 : Infinity;
    }
    /** The last place that was handed out. */
    get last() {
        return this.#last;
    }
    /** Everything that is known of has been handed out. */
    get isInStep() {
        return !this.#mustPull && !this.#isPulling && this.#last >= this.#head;
    }
    /** When {@link orders} is to be asked, if nothing happens before: milliseconds. */
    get wakeAt() {
        const pullAt = this.#wantsPull ? this.#pullAt : Infinity;
        return Math.min(pullAt, this.#acknowledgeAt);
    }
    /** The next of the inbox has come by itself: a message, or an event. */
    comes(now, place, entry) {
        return this.#passes(now, place) ? [{ place, entry }] : [];
    }
    /** Whether this is the next place, but for what the device has sent itself; then it is there. */
    #passes(now, place) {
        const between = place - this.#last - 1;
        // After a Notify, what lies between may be anybody's.
        const isMissed = this.#mustPull || this.#isPulling || this.#head > this.#last;
        this.#head = Math.max(this.#head, place);
        if (between < 0 || (between > 0 && (isMissed || between > this.#own)))
            return false;
        this.#own -= between;
        this.#moveTo(now, place);
        return true;
    }
    /** There is more, up to this place. */
    notify(head) {
        this.#head = Math.max(this.#head, head);
    }
    /** What was pulled. */
    page(now, entries, upto, head) {
        const behind = entries.filter(({ place }) => place > this.#last);
        this.#isPulling = false;
        this.#own = 0;
        this.#head = Math.max(this.#head, head);
        this.#moveTo(now, Math.max(this.#last, upto));
        if (this.#last >= this.#head)
            this.#mustPull = false;
        return behind;
    }
    /** A pull was not done. */
    pullFailed(now) {
        this.#isPulling = false;
        this.#pullAt = now + PULL_AGAIN_MS;
    }
    /** This device sent a message, and has not passed its place. */
    sentOwn() {
        this.#own += 1;
    }
    /** What it wants to say now. */
    orders(now) {
        const orders = [];
        const isMuch = this.#last - this.#acknowledged >= UNACKNOWLEDGED_MAX;
        if (this.#last > this.#acknowledged && (isMuch || now >= this.#acknowledgeAt)) {
            this.#acknowledged = this.#last;
            this.#acknowledgeAt = Infinity;
            orders.push({ order: "acknowledge", upto: this.#last });
        }
        if (this.#wantsPull && now >= this.#pullAt) {
            this.#isPulling = true;
            orders.push({ order: "pull", after: this.#last });
        }
        return orders;
    }
    get #wantsPull() {
        return !this.#isPulling && (this.#mustPull || this.#last < this.#head);
    }
    #moveTo(now, place) {
        this.#last = place;
        if (place > this.#acknowledged && this.#acknowledgeAt === Infinity) {
            this.#acknowledgeAt = now + ACKNOWLEDGE_MS;
        }
    }
}
