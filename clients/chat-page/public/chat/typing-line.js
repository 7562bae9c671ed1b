/** The line under a conversation that says who is typing, and what is said of whoever types here. */
import { by } from "./dom.js";
import { shortName } from "./place.js";
import { NAMED_MAX, OwnTyping, Typists } from "./typing.js";
import { sentenceOfTyping } from "./words.js";
/** The line of one room: of the conversation that is looked at. */
export class TypingLine {
    client;
    domain;
    language;
    #own = new OwnTyping();
    #off;
    #typists = new Typists();
    #peer;
    #timer;
    constructor(client, domain, language) {
        this.client = client;
        this.domain = domain;
        this.language = language;
        this.#off = client.on("transient", ({ peer, from, isOwn, state }) => {
            if (isOwn || peer !== this.#peer || state === undefined)
                return;
            if (this.#typists.heard(from, state === "composing", performance.now()))
                this.#show();
        });
    }
    close() {
        this.leaves(false);
        clearTimeout(this.#timer);
        this.#off();
        this.opens(undefined);
    }
    /** Another conversation is looked at, or none. */
    opens(peer) {
        this.#peer = peer;
        this.#typists = new Typists();
        this.#show();
    }
    speak(language) {
        this.language = language;
        this.#show();
    }
    /** Whoever has said something is not typing it any more. */
    said({ peer, from, isOwn }) {
        if (isOwn || peer !== this.#peer)
            return;
        if (this.#typists.heard(from, false, performance.now()))
            this.#show();
    }
    /** This stands in the field. */
    writes(peer, text) {
        this.#tell(this.#own.writes(peer, text, performance.now()));
        this.#wakeLater();
    }
    /** It was said, or nobody goes on writing. */
    leaves(isSaid) {
        this.#tell(this.#own.leaves(isSaid));
        this.#wakeLater();
    }
    #tell(told) {
        for (const { peer, state } of told)
            this.client.tell(peer, { state });
    }
    #show() {
        const names = this.#typists.now(performance.now()).map((it) => shortName(it, this.domain));
        const named = names.length > NAMED_MAX ? [] : names;
        by("typing").textContent = sentenceOfTyping(this.language, named, names.length);
        this.#wakeLater();
    }
    #wakeLater() {
        clearTimeout(this.#timer);
        const wakeAt = Math.min(this.#own.wakeAt, this.#typists.wakeAt);
        if (wakeAt === Infinity)
            return;
        this.#timer = setTimeout(() => {
            this.#tell(this.#own.wake(performance.now()));
            this.#show();
        }, Math.max(0, wakeAt - performance.now()));
    }
}
