/**
 * How far others are with what was said here: of two, what has come to the other and what is read;
 * in a group, how many have read a message.
 *
 * Knows no page. Invariant: a message that was read is never shown as less.
 */
import { isGroup } from "./im/index.js";
/** The marks beside the words. */
export const MARKS = { sent: "✓", delivered: "✓✓", read: "✓✓" };
/** Messages of a group of which it is remembered how many have read them. */
const COUNTED_MAX = 32;
/** What has come of one conversation. */
export class Receipts {
    client;
    peer;
    changed;
    #delivered = 0;
    #counted = new Map();
    #off;
    #isOver = false;
    constructor(client, peer, changed) {
        this.client = client;
        this.peer = peer;
        this.changed = changed;
        this.#off = client.on("delivered", ({ peer: by, upto }) => {
            if (by === this.peer)
                this.#has(upto);
        });
    }
    /** Another conversation is looked at. */
    close() {
        this.#isOver = true;
        this.#off();
    }
    /** The connection stands: what was told meanwhile is asked for. */
    async begin() {
        if (isGroup(this.peer))
            return;
        const found = await this.client.readers(this.peer).catch(() => undefined);
        this.#has(found?.readers[0]?.delivered ?? 0);
    }
    #has(upto) {
        if (this.#isOver || upto <= this.#delivered)
            return;
        this.#delivered = upto;
        this.changed();
    }
    /** How far a message is; `read`: up to where the other has read. */
    tick(seq, read) {
        if (seq <= read)
            return "read";
        return seq <= this.#delivered ? "delivered" : "sent";
    }
    /** Who has read a message of a group, as it was known last. */
    readersOf(seq) {
        return this.#counted.get(seq);
    }
    /** Asks who has read it; the word for why that is not told, or nothing. */
    async count(seq) {
        let found;
        try {
            found = await this.client.readers(this.peer, { seq });
        }
        catch (error) {
            return error.code;
        }
        if (this.#isOver)
            return undefined;
        this.#counted.delete(seq);
        this.#counted.set(seq, found);
        const [first] = this.#counted.keys();
        if (this.#counted.size > COUNTED_MAX)
            this.#counted.delete(first);
        this.changed();
        return undefined;
    }
}
