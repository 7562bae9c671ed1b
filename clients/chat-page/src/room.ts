/** Where one is when logged in: the people, the connection's state, and one conversation. */

import { isGroup } from "./im/index.js";
import type { Client, ImError, Message, State } from "./im/index.js";
import { sentenceOfChange, sentenceOfRecall } from "./changes.js";
import { Conversation } from "./conversation.js";
import type { Failed } from "./conversation.js";
import { by, Kept, made } from "./dom.js";
import { MembersPanel } from "./members.js";
import { parsePeople, People, printPeople } from "./people.js";
import { isName, namesOf, shortName, typedName, wholeName } from "./place.js";
import { sentenceOf, timeOf, wordOf } from "./words.js";
import type { Language } from "./words.js";

/** The room of one account. */
export class Room {
  readonly #domain: string;
  readonly #kept: Kept;
  readonly #people: People;
  #failed: Failed[] = [];
  #conversation: Conversation | undefined;
  /** Of the group that is looked at. */
  #members: MembersPanel | undefined;
  readonly #off: (() => void)[];

  constructor(
    private readonly client: Client,
    private readonly account: string,
    private language: Language,
  ) {
    this.#domain = account.slice(account.indexOf("@") + 1);
    this.#kept = new Kept(() => localStorage, `holdline-chat:${account}`);
    this.#people = parsePeople(this.#kept.text);
    this.#off = [
      client.on("message", (message) => this.#heard(message)),
      client.on("queue", () => this.#conversation?.show()),
      client.on("failed", ({ queued, error }) => {
        this.#failed.push({ queued, code: error.code });
        this.#conversation?.show(true);
      }),
    ];
    by("who").textContent = shortName(account, this.#domain);
    this.#leaveConversation();
    this.#showPeople();
  }

  /** Nothing of it is heard any more. `forgets`: neither does the browser keep anything of it. */
  close(forgets: boolean): void {
    this.#off.forEach((off) => off());
    this.#conversation?.close();
    this.#members?.close();
    if (forgets) this.#kept.text = null;
    document.title = wordOf(this.language, "title");
  }

  /** Everything is said in another language from now on. */
  speak(language: Language): void {
    this.language = language;
    this.#showPeople();
    this.tell(this.client.state);
    const peer = this.#conversation?.peer;
    if (peer !== undefined) this.#open(peer);
  }

  /** The connection's state. */
  tell(state: State): void {
    const word = (it: Parameters<typeof wordOf>[1]) => wordOf(this.language, it);
    const [banner, again] = [by("banner"), by("again")];
    banner.classList.toggle("silent", state.name === "online");
    again.hidden = state.name === "online" || state.name === "connecting";
    if (state.name === "online") {
      by("banner-text").textContent = "";
      this.#conversation?.resume();
      void this.#members?.refresh();
    } else if (state.name === "connecting") {
      by("banner-text").textContent = word("connecting");
    } else if (state.name === "waiting") {
      by("banner-text").textContent = word("away");
      again.textContent = word("connect");
    } else {
      const why = state.name === "ended" ? sentenceOf(this.language, state.error.code) : "";
      by("banner-text").textContent = `${word("ended")} ${why}`;
      again.textContent = word("here");
    }
  }

  /** The button of the banner. */
  again(): void {
    if (this.client.state.name === "waiting") this.client.nudge();
    else this.client.connect().catch(() => undefined); // Its state tells.
  }

  /** Somebody was named who is to be written to. */
  named(text: string): void {
    const name = typedName(text);
    by("open-fault").textContent = isName(name) ? "" : sentenceOf(this.language, "invalid");
    if (!isName(name)) return;
    by<HTMLInputElement>("peer").value = "";
    this.#open(wholeName(name, this.#domain));
  }

  /** A group is to be made of those who were named. */
  make(): void {
    const [title, names] = [by<HTMLInputElement>("group-title"), by<HTMLInputElement>("names")];
    const members = namesOf(names.value);
    const fault = (code: string) => {
      by("make-fault").textContent = code === "" ? "" : sentenceOf(this.language, code);
    };
    fault(members === undefined ? "invalid" : "");
    if (members === undefined) return;
    this.client.createGroup({ title: title.value.trim(), members }).then(({ group }) => {
      [title.value, names.value] = ["", ""];
      by<HTMLDetailsElement>("make-side").open = false;
      this.#open(group);
    }, (error: ImError) => fault(error.code));
  }

  /** Adds those who were named to the group that is looked at. */
  add(): void {
    this.#members?.add();
  }

  /** Leaves the group that is looked at. */
  quit(): void {
    this.#members?.quit();
  }

  /** Shows who is in the group that is looked at, or hides it. */
  showMembers(): void {
    this.#members?.toggle();
  }

  /** Says what was written. */
  say(): void {
    const field = by<HTMLTextAreaElement>("text");
    const [peer, text] = [this.#conversation?.peer, field.value];
    if (peer === undefined || text.trim() === "") return;
    field.value = "";
    this.#send(peer, text);
    field.focus();
  }

  /** The page is looked at again. */
  seen(): void {
    const conversation = this.#conversation;
    if (conversation === undefined || !conversation.isAtEnd) return;
    this.#people.seen(conversation.peer);
    this.#showPeople();
  }

  /** Back to the people. */
  back(): void {
    const peer = this.#conversation?.peer;
    this.#leaveConversation();
    this.#showPeople();
    const buttons = [...by("people").querySelectorAll<HTMLElement>("button")];
    (buttons.find((it) => it.dataset["peer"] === peer) ?? by("peer")).focus();
  }

  earlier(): void {
    void this.#conversation?.earlier();
  }

  newest(): void {
    void this.#conversation?.begin();
  }

  scrolled(): void {
    this.#conversation?.scrolled();
  }

  #send(peer: string, text: string): void {
    by("say-fault").textContent = "";
    this.client.send(peer, text).catch((error: ImError) => {
      const isKept = this.#failed.some(({ queued }) => queued.text === text);
      if (isKept || error.code === "closed") return;
      by("say-fault").textContent = sentenceOf(this.language, error.code);
      const field = by<HTMLTextAreaElement>("text");
      if (field.value === "") field.value = text;
    });
    this.#conversation?.show(true);
  }

  #sendAgain(failed: Failed): void {
    this.#failed = this.#failed.filter((it) => it !== failed);
    const peer = this.#conversation?.peer;
    if (peer === undefined) return;
    this.#open(peer);
    this.#send(peer, failed.queued.text);
  }

  #heard(message: Message): void {
    const conversation = this.#conversation;
    const isHere = conversation?.peer === message.peer;
    const isSeen = isHere && conversation.isAtEnd && document.visibilityState === "visible";
    const { change, peer } = message;
    const text = this.#textOf(message);
    this.#people.heard({ ...message, text }, isSeen);
    if (change?.verb === "create" || change?.verb === "rename") this.#titled(peer, change.title);
    if (isHere) conversation.live(message);
    if (isHere && change !== undefined) void this.#members?.refresh();
    this.#showPeople();
  }

  /** A message as a line. */
  #textOf({ change, recall, from, text }: Message): string {
    if (recall !== undefined) return sentenceOfRecall(this.language, from, this.#domain);
    return change === undefined ? text : sentenceOfChange(this.language, from, change, this.#domain);
  }

  #titled(group: string, title: string): void {
    this.#people.titled(group, title);
    if (this.#conversation?.peer === group) by("with").textContent = this.#name(group);
    this.#showPeople();
  }

  /** What is shown of somebody, or of a group. */
  #name(peer: string): string {
    const title = this.#people.all.find((it) => it.peer === peer)?.title ?? "";
    return title === "" ? shortName(peer, this.#domain) : title;
  }

  #open(peer: string): void {
    this.#conversation?.close();
    this.#members?.close();
    this.#people.met(peer, Date.now());
    this.#people.seen(peer);
    by("with").textContent = this.#name(peer);
    by("members-shown").hidden = !isGroup(peer);
    by("say-fault").textContent = "";
    by("start").hidden = true;
    by("conversation").hidden = false;
    document.body.classList.add("talking");
    this.#conversation = new Conversation(this.client, peer, this.#domain, this.language,
      this.#failed, (failed) => this.#sendAgain(failed));
    this.#members = isGroup(peer) ? new MembersPanel(this.client, peer, this.account, this.language,
      (title) => this.#titled(peer, title)) : undefined;
    this.#showPeople();
    by("text").focus();
  }

  #leaveConversation(): void {
    this.#conversation?.close();
    this.#members?.close();
    [this.#conversation, this.#members] = [undefined, undefined];
    by("start").hidden = false;
    by("conversation").hidden = true;
    document.body.classList.remove("talking");
  }

  #showPeople(): void {
    this.#kept.text = printPeople(this.#people);
    const all = this.#people.all;
    by("no-people").hidden = all.length > 0;
    const focused = (document.activeElement as HTMLElement | null)?.dataset["peer"];
    by("people").replaceChildren(...all.map(({ peer, glimpse, at, unread }) => {
      const name = this.#name(peer);
      const item = made("li");
      const button = made("button");
      button.dataset["peer"] = peer;
      button.title = timeOf(this.language, at, Date.now());
      if (peer === this.#conversation?.peer) button.setAttribute("aria-current", "true");
      button.append(made("span", name));
      if (unread > 0) {
        const count = made("span", String(unread), "unread");
        count.append(made("span", ` ${wordOf(this.language, "unread")}`, "unseen"));
        button.append(count);
      }
      button.append(made("span", glimpse, "quiet"));
      button.addEventListener("click", () => this.#open(peer));
      item.append(button);
      return item;
    }));
    if (focused !== undefined) {
      const buttons = [...by("people").querySelectorAll<HTMLElement>("button")];
      buttons.find((it) => it.dataset["peer"] === focused)?.focus();
    }
    const unread = all.reduce((sum, it) => sum + it.unread, 0);
    const title = wordOf(this.language, "title");
    document.title = unread > 0 ? `(${unread}) ${title}` : title;
  }
}
