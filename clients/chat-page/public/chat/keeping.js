/** Has the server keep what was read and what was begun to be written, when the time has come. */
import { Drafts } from "./drafts.js";
import { Reading } from "./reading.js";
/** What may be told again after it was not taken. */
const PASSING = ["busy", "disconnected", "store_full", "store_failed"];
/** The keeping of one room. */
export class Keeping {
    client;
    drafts = new Drafts();
    #reading = new Reading();
    #timer;
    #isOver = false;
    constructor(client) {
        this.client = client;
    }
    /** Nothing is kept any more but what is due. */
    close() {
        this.leaves();
        this.#isOver = true;
        clearTimeout(this.#timer);
    }
    /** A conversation was seen up to this place. */
    sees(peer, upto) {
        this.#reading.sees(peer, upto, this.#known(peer)?.read ?? 0);
        this.pump();
    }
    /** This stands in the field. */
    writes(peer, text) {
        this.drafts.writes(performance.now(), peer, text, this.#known(peer)?.draft ?? "");
        this.pump();
    }
    /** Nobody goes on writing. */
    leaves() {
        this.drafts.leaves(performance.now());
        this.pump();
    }
    /** Says what there is to say now; also when the connection stands again. */
    pump() {
        if (this.#isOver)
            return;
        clearTimeout(this.#timer);
        // What waits for a connection is said when it stands.
        if (this.client.state.name !== "online")
            return;
        const now = performance.now();
        const read = this.#reading.due(now);
        if (read !== undefined)
            this.#tells(read.peer, read.upto);
        for (const { peer, draft } of this.drafts.due(now))
            this.#keeps(peer, draft);
        const wakeAt = Math.min(this.#reading.wakeAt, this.drafts.wakeAt);
        if (wakeAt === Infinity)
            return;
        this.#timer = setTimeout(() => this.pump(), Math.max(0, wakeAt - performance.now()));
    }
    #tells(peer, upto) {
        this.client.markRead(peer, upto).then(() => this.#reading.done(performance.now()), (error) => {
            if (PASSING.includes(error.code))
                this.#reading.failed(performance.now());
            else
                this.#reading.done(performance.now());
        }).finally(() => this.pump());
    }
    #keeps(peer, draft) {
        this.client.settings(peer, { draft }).then(() => this.drafts.done(peer), (error) => {
            if (PASSING.includes(error.code))
                this.drafts.failed(performance.now(), peer);
            else
                this.drafts.done(peer);
        }).finally(() => this.pump());
    }
    #known(peer) {
        return this.client.list.find((it) => it.peer === peer);
    }
}
