/**
 * Titles of groups, as a browser keeps them: lists of the server name groups by their addresses.
 *
 * Knows no storage and no page. Invariant: there are at most {@link TITLES_MAX}; the one that was
 * told longest ago is forgotten first, and asked for anew when its group is shown.
 */
/** Titles that are kept. */
export const TITLES_MAX = 500;
/** Bytes of a title, as the server has it; characters here. */
const TITLE_MAX = 256;
/** The titles, by their groups. */
export class Titles {
    #titles;
    constructor(titles = []) {
        this.#titles = new Map();
        for (const [group, title] of titles)
            this.put(group, title);
    }
    /** A group's title, empty where it has none; `undefined`: nobody told. */
    of(group) {
        return this.#titles.get(group);
    }
    /** A group has this title; false: it is known. */
    put(group, title) {
        if (this.#titles.get(group) === title)
            return false;
        this.#titles.delete(group);
        this.#titles.set(group, Array.from(title).slice(0, TITLE_MAX).join(""));
        const [oldest] = this.#titles.keys();
        if (this.#titles.size > TITLES_MAX)
            this.#titles.delete(oldest);
        return true;
    }
    /** All of them as text, to be kept. */
    print() {
        return JSON.stringify([...this.#titles]);
    }
}
/** Those that were printed. What is none is left out. */
export function parseTitles(text) {
    try {
        const found = JSON.parse(text ?? "[]");
        return new Titles(Array.isArray(found) ? found.filter(isTitle) : []);
    }
    catch {
        return new Titles();
    }
}
function isTitle(value) {
    return Array.isArray(value) && value.length === 2 && value.every((it) => typeof it === "string");
}
