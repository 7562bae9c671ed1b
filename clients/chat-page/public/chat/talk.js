/**
 * The part of one conversation that is on the page: a piece of it without gaps, and how more of it
 * is asked for.
 *
 * Knows no page and no client. Invariant: places rise by one from message to message, and there
 * are at most {@link SHOWN_MAX}; whoever goes back further lets go of the newest.
 */
/** Messages that are shown at once. */
export const SHOWN_MAX = 1_000;
/** A conversation on the page. */
export class Talk {
    #shown = [];
    #hasEarlier = true;
    #hasLater = false;
    /** Oldest first. */
    get shown() {
        return this.#shown;
    }
    /** There may be more before what is shown. */
    get hasEarlier() {
        return this.#hasEarlier;
    }
    /** The newest are not shown, for there were too many behind them. */
    get hasLater() {
        return this.#hasLater;
    }
    /** The place before which to ask for more; 0: the end. */
    get before() {
        return this.#shown[0]?.seq ?? 0;
    }
    /** The place behind which to ask for more. */
    get after() {
        return this.#shown.at(-1)?.seq ?? 0;
    }
    /** The end of the conversation, as it was read. */
    begin(messages, hasMore) {
        this.#shown = messages.slice(-SHOWN_MAX);
        this.#hasEarlier = hasMore;
        this.#hasLater = false;
    }
    /** A part of it, somewhere; `hasLater`: it does not go up to the end. */
    part(messages, hasEarlier, hasLater) {
        this.begin(messages, hasEarlier);
        this.#hasLater = hasLater;
    }
    /** What was read before what is shown. */
    earlier(messages, hasMore) {
        const before = this.#shown[0]?.seq ?? Infinity;
        const found = messages.filter(({ seq }) => seq < before);
        this.#shown = [...found, ...this.#shown];
        this.#hasEarlier = hasMore;
        if (this.#shown.length <= SHOWN_MAX)
            return;
        this.#shown = this.#shown.slice(0, SHOWN_MAX);
        this.#hasLater = true;
    }
    /** The message at this place is another one now. */
    change(place, made) {
        this.#shown = this.#shown.map((it) => (it.seq === place ? made(it) : it));
    }
    /** One that has just come, or was just stored. */
    live(message) {
        if (this.#hasLater || message.seq <= this.after)
            return "known";
        if (message.seq !== this.after + 1)
            return "gap";
        this.#shown.push(message);
        if (this.#shown.length > SHOWN_MAX) {
            this.#shown = this.#shown.slice(-SHOWN_MAX);
            this.#hasEarlier = true;
        }
        if (message.seq === 1)
            this.#hasEarlier = false;
        return "shown";
    }
}
