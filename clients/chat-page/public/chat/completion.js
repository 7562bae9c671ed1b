/** The names that are offered behind an `@` while a text is written. */
import { by, made } from "./dom.js";
import { begunAt, completed, offered } from "./mentions.js";
/** The list over the field: arrows go through it, Enter and Tab take a name, Escape closes it. */
export class Completion {
    names;
    taken;
    #names = [];
    #at = 0;
    /** @param names who may be named; @param taken the text has changed. */
    constructor(names, taken) {
        this.names = names;
        this.taken = taken;
        const list = by("offered");
        list.onpointerdown = (event) => {
            // The field stays the one that is written in.
            event.preventDefault();
            const item = event.target.closest("li");
            if (item !== null)
                this.#take(item.textContent ?? "");
        };
        this.close();
    }
    /** Something was written, or the place in it is another one. */
    show() {
        const { value, selectionStart } = by("text");
        const begun = begunAt(value, selectionStart);
        this.#names = begun === undefined ? [] : offered(this.names(), begun);
        this.#at = 0;
        this.#draw();
    }
    close() {
        this.#names = [];
        this.#draw();
    }
    /** A key was pressed; true: it was for the list. */
    presses(key) {
        if (this.#names.length === 0)
            return false;
        const step = key === "ArrowDown" ? 1 : key === "ArrowUp" ? -1 : 0;
        if (step !== 0)
            this.#at = (this.#at + step + this.#names.length) % this.#names.length;
        else if (key === "Enter" || key === "Tab")
            return this.#take(this.#names[this.#at]);
        else if (key === "Escape")
            this.#names = [];
        else
            return false;
        this.#draw();
        return true;
    }
    #take(name) {
        const field = by("text");
        const { text, at } = completed(field.value, field.selectionStart, name);
        field.value = text;
        field.setSelectionRange(at, at);
        this.close();
        this.taken();
        return true;
    }
    #draw() {
        const items = this.#names.map((name, at) => {
            const item = made("li", name);
            item.setAttribute("role", "option");
            item.id = `offered-${at}`;
            item.setAttribute("aria-selected", String(at === this.#at));
            return item;
        });
        const [list, field] = [by("offered"), by("text")];
        list.replaceChildren(...items);
        list.hidden = items.length === 0;
        if (items.length === 0)
            field.removeAttribute("aria-activedescendant");
        else
            field.setAttribute("aria-activedescendant", `offered-${this.#at}`);
    }
}
