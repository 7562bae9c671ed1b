/**
 * Messages that are quoted: what they are now, as far as that is known here.
 *
 * What is shown is looked at first; what is not is read, once, and kept for as long as the
 * conversation is looked at. Knows no page. Invariant: no more than {@link KEPT_MAX} are kept.
 */
/** Quoted messages that are kept. */
const KEPT_MAX = 200;
/** What is known of the messages that those of one conversation quote. */
export class Quotes {
    client;
    peer;
    read;
    /** By their places; `undefined`: it is being read, or is not there. */
    #kept = new Map();
    /** @param read something was read: it may be shown. */
    constructor(client, peer, read) {
        this.client = client;
        this.peer = peer;
        this.read = read;
    }
    /** What a quote is of, as it is now; `undefined`: not known yet, or not there. */
    of({ seq, id }, shown) {
        const first = shown[0]?.seq ?? Infinity;
        const found = shown[seq - first] ?? this.#kept.get(seq);
        if (found === undefined && !this.#kept.has(seq))
            void this.#look(seq);
        return found?.id === id ? found : undefined;
    }
    async #look(seq) {
        this.#kept.set(seq, undefined);
        const [oldest] = this.#kept.keys();
        if (this.#kept.size > KEPT_MAX)
            this.#kept.delete(oldest);
        try {
            const { messages } = await this.client.history(this.peer, { before: seq + 1, count: 1 });
            if (messages[0]?.seq !== seq || !this.#kept.has(seq))
                return;
            this.#kept.set(seq, messages[0]);
            this.read();
        }
        catch {
            // It says what it said without it; whoever opens the conversation again asks again.
        }
    }
}
