/**
 * The people whom somebody has talked with, the latest first, as a browser keeps them.
 *
 * Knows no storage and no page. Invariant: there are at most {@link PEOPLE_MAX}; those who were
 * silent for longest are forgotten here, and come back with their next message.
 */
/** People that are kept. */
export const PEOPLE_MAX = 500;
/** Characters of a message that are shown beside a name. */
const GLIMPSE_MAX = 80;
/** The people. */
export class People {
    #people;
    constructor(people = []) {
        this.#people = [...people].sort((one, other) => other.at - one.at).slice(0, PEOPLE_MAX);
    }
    /** The latest first. */
    get all() {
        return this.#people;
    }
    /** Something was said; `isSeen`: its conversation is being looked at. One is heard once. */
    heard(message, isSeen) {
        const { peer, at, seq } = message;
        const known = this.#people.find((it) => it.peer === peer);
        if (known !== undefined && seq <= known.seq)
            return;
        const counts = !message.isOwn && !isSeen && message.uncounted !== true;
        const unread = isSeen ? 0 : (known?.unread ?? 0) + Number(counts);
        const glimpse = Array.from(message.text).slice(0, GLIMPSE_MAX).join("");
        this.#put({ ...known, peer, glimpse, at, seq, unread });
    }
    /** A group has this title. */
    titled(peer, title) {
        this.#people = this.#people.map((it) => (it.peer === peer ? { ...it, title } : it));
    }
    /** Somebody is to be written to. */
    met(peer, now) {
        const known = this.#people.some((it) => it.peer === peer);
        if (!known)
            this.#put({ peer, glimpse: "", at: now, seq: 0, unread: 0 });
    }
    /** The conversation was looked at. */
    seen(peer) {
        this.#people = this.#people.map((it) => (it.peer === peer ? { ...it, unread: 0 } : it));
    }
    #put(person) {
        const others = this.#people.filter(({ peer }) => peer !== person.peer);
        const behind = others.findIndex(({ at }) => at <= person.at);
        others.splice(behind < 0 ? others.length : behind, 0, person);
        this.#people = others.slice(0, PEOPLE_MAX);
    }
}
/** The people as text, to be kept. */
export function printPeople(people) {
    return JSON.stringify(people.all);
}
/** Those that {@link printPeople} printed. Who is no person is left out. */
export function parsePeople(text) {
    try {
        const found = JSON.parse(text ?? "[]");
        return new People(Array.isArray(found) ? found.filter(isPerson) : []);
    }
    catch {
        return new People();
    }
}
function isPerson(value) {
    const { peer, glimpse, at, seq, unread, title } = Object(value);
    const isCount = (it) => Number.isSafeInteger(it) && it >= 0;
    return typeof peer === "string" && typeof glimpse === "string" && isCount(at) && isCount(seq)
        && isCount(unread) && (title === undefined || typeof title === "string");
}
