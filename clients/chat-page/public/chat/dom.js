/** The document: its elements by their names, its words in a language, and what a browser keeps. */
import { partsOf } from "./links.js";
import { wordOf } from "./words.js";
/** The element of this id, which the page has. */
export function by(id) {
    return document.getElementById(id);
}
/** An element with a text and classes. Texts of people are never anything but texts. */
export function made(tag, text = "", ...classes) {
    const element = document.createElement(tag);
    element.textContent = text;
    element.classList.add(...classes);
    return element;
}
/** Shows a text, its web addresses as links. */
export function fill(element, text) {
    element.replaceChildren(...partsOf(text).map(({ text: part, url }) => {
        if (url === undefined)
            return document.createTextNode(part);
        const link = document.createElement("a");
        link.textContent = part;
        link.href = url;
        link.target = "_blank";
        link.rel = "noopener noreferrer";
        return link;
    }));
}
/** Puts everything that the page says of itself into a language. */
export function speak(language) {
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
    const word = (name) => wordOf(language, name);
    for (const it of document.querySelectorAll("[data-word]")) {
        it.textContent = word(it.dataset["word"]);
    }
    for (const it of document.querySelectorAll("[data-label]")) {
        it.setAttribute("aria-label", word(it.dataset["label"]));
    }
    for (const it of document.querySelectorAll("[data-hint]")) {
        it.setAttribute("placeholder", word(it.dataset["hint"]));
    }
}
/** Text that a browser keeps: where it keeps nothing, there is none. */
export class Kept {
    storage;
    key;
    constructor(storage, key) {
        this.storage = storage;
        this.key = key;
    }
    get text() {
        try {
            return this.storage().getItem(this.key);
        }
        catch {
            return null;
        }
    }
    set text(text) {
        try {
            if (text === null)
                this.storage().removeItem(this.key);
            else
                this.storage().setItem(this.key, text);
        }
        catch {
            // The page goes on without.
        }
    }
}
