/** The list of conversations on the page. What did not change is left as it is. */

import type { Client, Conversation } from "./im/index.js";
import { isGroup, UNREAD_MAX } from "./im/index.js";
import { madeAvatar } from "./avatars.js";
import { by, made } from "./dom.js";
import { countOf, glimpseOf, listed, unreadIn } from "./listed.js";
import type { Listed } from "./listed.js";
import { shortName, wholeName } from "./place.js";
import { standingOf, tieOf } from "./presence.js";
import type { Titles } from "./titles.js";
import { timeOf, wordOf } from "./words.js";
import type { Language } from "./words.js";

/** Conversations that are shown, and that more are shown by at a time. */
const SHOWN = 100;
/** People who were named here and with whom nothing was said yet. */
const NAMED_MAX = 50;

interface Item {
  readonly conversation: Conversation | undefined;
  /** Whatever else is to be seen of it. */
  readonly about: string;
  readonly element: HTMLElement;
}

/** The panel. */
export class ListPanel {
  readonly #named = new Set<string>();
  #items = new Map<string, Item>();
  #shown = SHOWN;
  #language: Language;
  /** Groups whose title was asked for. */
  readonly #titleAsked = new Set<string>();
  #isAsking = false;
  #isOver = false;
  readonly #domain: string;

  constructor(
    private readonly client: Client,
    private readonly account: string,
    private readonly titles: Titles,
    language: Language,
    private readonly open: (peer: string) => void,
    private readonly titled: (group: string, title: string) => void,
  ) {
    this.#language = language;
    this.#domain = account.slice(account.indexOf("@") + 1);
    by("people").replaceChildren();
  }

  /** It is shown no more. */
  close(): void {
    this.#isOver = true;
  }

  /** Everything is said in another language from now on. */
  speak(language: Language): void {
    this.#language = language;
    this.#items.clear();
  }

  /** Somebody was named who is to be written to, though nothing was said yet. */
  names(peer: string): void {
    this.#named.delete(peer);
    const [first] = this.#named;
    if (this.#named.size >= NAMED_MAX) this.#named.delete(first!);
    this.#named.add(peer);
  }

  /** Shows more of them. */
  more(): void {
    this.#shown += SHOWN;
  }

  /** What is shown of somebody, or of a group. */
  name(peer: string): string {
    const title = isGroup(peer) ? this.titles.of(peer) : this.#contact(peer)?.name;
    return title === undefined || title === "" ? shortName(peer, this.#domain) : title;
  }

  #contact(peer: string) {
    return this.client.contacts.find(({ address }) => address === peer);
  }

  /** Brings the page in line with what there is; `current`: the conversation that is looked at. */
  show(current: string | undefined): void {
    const waiting = this.client.queue.map(({ to }) => wholeName(to, this.#domain));
    const named = new Set([...[...this.#named].reverse(), ...waiting]);
    const all = listed(this.client.list, named, current);
    const shown = all.slice(0, this.#shown);
    by("no-people").hidden = all.length > 0 || !this.client.isListWhole;
    by("more-people").hidden = all.length <= this.#shown;
    const focused = (document.activeElement as HTMLElement | null)?.dataset["peer"];
    const items = new Map(shown.map((it) => [it.peer, this.#item(it, it.peer === current)]));
    this.#items = items;
    place(by("people"), [...items.values()].map(({ element }) => element));
    if (focused !== undefined) this.focus(focused);
    const { count, isMore } = unreadIn(this.client.list);
    const title = wordOf(this.#language, "title");
    document.title = count > 0 ? `(${countOf(count, isMore)}) ${title}` : title;
    void this.#askTitles(shown);
  }

  /** Goes to somebody's button; false: there is none. */
  focus(peer: string): boolean {
    const button = this.#items.get(peer)?.element.querySelector("button");
    if (button !== document.activeElement) button?.focus();
    return button !== null && button !== undefined;
  }

  #item({ peer, conversation }: Listed, isCurrent: boolean): Item {
    const contact = this.#contact(peer);
    const isSeen = contact?.sees === "subscribed" && !contact.isBlocked;
    const standing = isSeen ? standingOf(this.client.presence(peer)) : "offline";
    const tie = tieOf(contact);
    const about = `${isCurrent} ${standing} ${tie} ${this.name(peer)}`;
    const before = this.#items.get(peer);
    if (before?.conversation === conversation && before?.about === about) return before;
    // Its element stays, so that whoever stands on it goes on standing there.
    const element = before?.element ?? made("li");
    const button = element.querySelector("button") ?? this.#button(peer, element);
    button.replaceChildren(made("span", this.name(peer)));
    const avatar = madeAvatar(peer, this.name(peer));
    if (isCurrent) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
    if (conversation !== undefined) this.#fill(button, conversation, isCurrent);
    else if (tie === "asks") button.append(made("span", wordOf(this.#language, "wantsContact"), "quiet"));
    if (standing !== "offline") {
      avatar.classList.add(standing);
      button.append(made("span", wordOf(this.#language, standing), "unseen"));
    }
    button.append(avatar);
    return { conversation, about, element };
  }

  #button(peer: string, element: HTMLElement): HTMLElement {
    const button = made("button");
    button.dataset["peer"] = peer;
    button.addEventListener("click", () => this.open(peer));
    element.append(button);
    return button;
  }

  #fill(button: HTMLElement, conversation: Conversation, isCurrent: boolean): void {
    const { last, unread, mentions, isPinned, isMuted } = conversation;
    const word = (it: Parameters<typeof wordOf>[1]) => wordOf(this.#language, it);
    button.title = last === undefined ? "" : timeOf(this.#language, last.at, Date.now());
    // Words, and no signs: not every machine has those.
    const kept = [...(isPinned ? [word("pinned")] : []), ...(isMuted ? [word("silent")] : [])];
    const marks = made("span", kept.join(" · "), "marks");
    if (unread > 0) {
      const count = countOf(unread, unread >= UNREAD_MAX);
      // Who is mentioned is to notice it though the conversation is muted.
      const isQuiet = isMuted && mentions === 0;
      const badge = made("span", count, "unread", ...(isQuiet ? ["muted"] : []));
      if (mentions > 0) {
        badge.prepend("@ ");
        badge.append(made("span", ` ${word("mentioned")},`, "unseen"));
      }
      badge.append(made("span", ` ${word("unread")}`, "unseen"));
      marks.append(badge);
    }
    const glimpse = glimpseOf(this.#language, conversation, this.account, isCurrent);
    button.append(marks, made("span", glimpse, "quiet"));
  }

  /** Asks for the titles of groups that are shown by their addresses, one after the other. */
  async #askTitles(shown: readonly Listed[]): Promise<void> {
    if (this.#isAsking || this.#isOver || this.client.state.name !== "online") return;
    const unknown = shown.find(({ peer, conversation }) => conversation !== undefined
      && isGroup(peer) && this.titles.of(peer) === undefined && !this.#titleAsked.has(peer));
    if (unknown === undefined) return;
    const { peer } = unknown;
    this.#isAsking = true;
    if (this.#titleAsked.size > 1_000) this.#titleAsked.clear();
    this.#titleAsked.add(peer);
    // Who is in it no more is told nothing of it: its address stays.
    const title = await this.client.members(peer).then((it) => it.title, () => undefined);
    this.#isAsking = false;
    if (this.#isOver) return;
    if (title !== undefined) this.titled(peer, title);
    await this.#askTitles(shown);
  }
}

/** Puts elements into a list in this order, and moves as few as it takes. */
function place(list: HTMLElement, wanted: readonly HTMLElement[]): void {
  const kept = new Set<Element>(wanted);
  for (const element of [...list.children]) if (!kept.has(element)) element.remove();
  let next = list.firstElementChild;
  for (const element of wanted) {
    if (element === next) next = next.nextElementSibling;
    else list.insertBefore(element, next);
  }
}
