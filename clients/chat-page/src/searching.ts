/** What was said is searched for a text: what was found is listed, and leads to where it stands. */

import type { Client, ImError, Message } from "./im/index.js";
import { by, made } from "./dom.js";
import { shortName } from "./place.js";
import { sentenceOf, timeOf, wordOf } from "./words.js";
import type { Language } from "./words.js";

/** Messages of one page. */
const PAGE = 20;
/** Parts of the inbox that one search looks through before somebody wants more. */
const PARTS_MAX = 8;
/** Characters of a message that are shown. */
const SHOWN_MAX = 160;

/** The panel of the searches of one account. */
export class Searching {
  #text = "";
  #before: number | undefined;
  /** Which search it is: what an older one finds is not shown. */
  #number = 0;
  #isOver = false;

  constructor(
    private readonly client: Client,
    private readonly domain: string,
    private language: Language,
    private readonly name: (peer: string) => string,
    private readonly open: (message: Message) => void,
  ) {
    this.#clear();
  }

  close(): void {
    this.#isOver = true;
    this.#clear();
  }

  speak(language: Language): void {
    this.language = language;
    this.#clear();
  }

  /** Searches for what stands in the field; for nothing, what was found goes. */
  begin(): void {
    this.#clear();
    this.#text = by<HTMLInputElement>("sought").value.trim();
    if (this.#text !== "") void this.#look(0);
  }

  /** Goes on where it ended. */
  more(): void {
    if (this.#before !== undefined) void this.#look(this.#before);
  }

  #clear(): void {
    this.#number += 1;
    this.#before = undefined;
    by("found").replaceChildren();
    by("more-found").hidden = true;
    by("search-about").textContent = "";
  }

  async #look(from: number): Promise<void> {
    this.#number += 1;
    const number = this.#number;
    by("more-found").hidden = true;
    by("search-about").textContent = wordOf(this.language, "searching");
    let [before, left] = [from, PAGE];
    try {
      for (let part = 0; part < PARTS_MAX; part++) {
        const found = await this.client.search(this.#text, { before, count: left });
        if (this.#isOver || number !== this.#number) return;
        by("found").append(...found.messages.map((it) => this.#item(it)));
        left -= found.messages.length;
        before = found.before;
        this.#before = found.hasMore ? before : undefined;
        if (!found.hasMore || left <= 0) break;
      }
      by("search-about").textContent = this.#about();
    } catch (error) {
      if (number !== this.#number) return;
      by("search-about").textContent = sentenceOf(this.language, (error as ImError).code);
    }
    by("more-found").hidden = this.#before === undefined;
  }

  #about(): string {
    const isNone = by("found").childElementCount === 0;
    if (!isNone) return "";
    return wordOf(this.language, this.#before === undefined ? "foundNothing" : "foundNothingYet");
  }

  #item(message: Message): HTMLElement {
    const { peer, from, text, at } = message;
    const item = made("li");
    const button = made("button", "", "plain");
    const by = `${this.name(peer)} · ${shortName(from, this.domain)} · ${timeOf(this.language, at, Date.now())}`;
    button.append(made("small", by), made("span", text.slice(0, SHOWN_MAX)));
    button.addEventListener("click", () => this.open(message));
    item.append(button);
    return item;
  }
}
