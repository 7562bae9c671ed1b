/** Where one is when logged in: the people, the connection's state, and one conversation. */

import { isChatroom, isGroup } from "./im/index.js";
import type { Chatroom, ChatroomEvent, Client, ImError, Message, Said, State } from "./im/index.js";
import { Attachments } from "./attachments.js";
import { madeAvatar } from "./avatars.js";
import { Completion } from "./completion.js";
import { ContactPanel } from "./contact.js";
import { Conversation } from "./conversation.js";
import type { Failed } from "./conversation.js";
import { by, Kept } from "./dom.js";
import { draftOf } from "./drafts.js";
import { Keeping } from "./keeping.js";
import { ListPanel } from "./list.js";
import { MembersPanel } from "./members.js";
import { EVERYBODY, mentionedIn } from "./mentions.js";
import { noticeOf, Notices } from "./notices.js";
import type { NoticeMode } from "./notices.js";
import { OptionsMenu } from "./options.js";
import { isName, namesOf, shortName, typedName, wholeName } from "./place.js";
import { Searching } from "./searching.js";
import { TypingLine } from "./typing-line.js";
import { parseTitles } from "./titles.js";
import type { Titles } from "./titles.js";
import { sentenceOf, sentenceOfMissed, wordOf } from "./words.js";
import type { Language, Word } from "./words.js";

/** Texts that are longer than a draft may be, and are kept whole while the page lives. */
const LONG_TEXTS_MAX = 20;

/** Characters of a quoted message that are shown where one writes. */
const QUOTED_MAX = 120;

/** The room of one account. */
export class Room {
  readonly #domain: string;
  readonly #kept: Kept;
  readonly #titles: Titles;
  readonly #list: ListPanel;
  readonly #keeping: Keeping;
  readonly #options: OptionsMenu;
  readonly #attachments: Attachments;
  readonly #typing: TypingLine;
  readonly #contact: ContactPanel;
  readonly #notices: Notices;
  #failed: Failed[] = [];
  /** The message that is being edited. */
  #editing: Message | undefined;
  /** The message that is quoted by what is said next. */
  #quoting: Message | undefined;
  readonly #completion: Completion;
  readonly #searching: Searching;
  #conversation: Conversation | undefined;
  /** Of the group that is looked at. */
  #members: MembersPanel | undefined;
  /** The draft of the conversation that is looked at, as the server had it last. */
  #knownDraft = "";
  readonly #longTexts = new Map<string, string>();
  readonly #off: (() => void)[];

  constructor(
    private readonly client: Client,
    private readonly account: string,
    private language: Language,
    /** Tells which conversation is open; `undefined`: none. */
    private readonly opened: (peer: string | undefined) => void,
  ) {
    this.#domain = account.slice(account.indexOf("@") + 1);
    this.#kept = new Kept(() => localStorage, `holdline-chat:${account}`);
    this.#titles = parseTitles(this.#kept.text);
    this.#keeping = new Keeping(client);
    this.#list = new ListPanel(client, account, this.#titles, language,
      (peer) => this.open(peer), (group, title) => this.#titled(group, title));
    this.#typing = new TypingLine(client, this.#domain, language);
    this.#options = new OptionsMenu(client, language, () => this.back());
    this.#attachments = new Attachments(client, language, () => this.written());
    this.#contact = new ContactPanel(client, language, (peer) => this.#list.name(peer));
    this.#notices = new Notices(new Kept(() => localStorage, "holdline-chat:notices"));
    this.#completion = new Completion(() => this.#names(), () => this.written());
    this.#searching = new Searching(client, this.#domain, language,
      (peer) => this.#list.name(peer), ({ peer, seq }) => this.open(peer, seq));
    this.#off = [
      client.on("message", (message) => this.#heard(message)),
      client.on("chatroom", (event) => this.#happens(event)),
      client.on("list", () => this.#listed()),
      client.on("contacts", () => this.#knowsPeople()),
      client.on("presence", () => this.#knowsPeople()),
      client.on("contact", ({ address, said }) => {
        if (said !== "request") return;
        this.#list.names(address);
        this.#showList();
      }),
      client.on("queue", () => {
        this.#conversation?.show();
        this.#showList();
      }),
      client.on("failed", ({ queued, error }) => {
        this.#failed.push({ queued, code: error.code });
        this.#conversation?.show(true);
      }),
    ];
    const name = shortName(account, this.#domain);
    by("who").replaceChildren(madeAvatar(account, name), document.createTextNode(name));
    by("notify").onclick = () => void this.#notifies(this.#notices.mode === "off" ? "on" : "off");
    by("notify-text").onclick = () =>
      void this.#notifies(this.#notices.mode === "on" ? "private" : "on");
    this.#showNotices();
    this.#leaveConversation();
    this.#showList();
  }

  /** Nothing of it is heard any more. `forgets`: neither does the browser keep anything of it. */
  close(forgets: boolean): void {
    this.#keeping.close();
    this.#attachments.close();
    this.#typing.close();
    this.#searching.close();
    this.#completion.close();
    this.#list.close();
    this.#off.forEach((off) => off());
    this.#conversation?.close();
    this.#members?.close();
    if (forgets) this.#kept.text = null;
    document.title = wordOf(this.language, "title");
  }

  /** Everything is said in another language from now on. */
  speak(language: Language): void {
    this.language = language;
    this.#list.speak(language);
    this.#contact.speak(language);
    this.#showNotices();
    this.#options.speak(language);
    this.#attachments.speak(language);
    this.#typing.speak(language);
    this.#searching.speak(language);
    this.#showList();
    this.tell(this.client.state);
    const peer = this.#conversation?.peer;
    if (peer !== undefined) this.open(peer);
  }

  /** Contacts or their presence have changed. */
  #knowsPeople(): void {
    this.#contact.show();
    this.#showList();
    const peer = this.#conversation?.peer;
    if (peer === undefined || isGroup(peer) || isChatroom(peer)) return;
    by("with").textContent = this.#list.name(peer);
  }

  async #notifies(mode: NoticeMode): Promise<void> {
    await this.#notices.choose(mode);
    this.#showNotices();
  }

  #showNotices(): void {
    const { isPossible, isDenied, mode } = this.#notices;
    const word = (it: Word) => wordOf(this.language, it);
    by("notify").hidden = !isPossible || isDenied;
    by("notify").textContent = word(mode === "off" ? "notify" : "unnotify");
    by("notify-text").hidden = mode === "off";
    by("notify-text").textContent = word(mode === "on" ? "notifyNoText" : "notifyText");
    by("notify-denied").hidden = !isDenied;
  }

  /** Notifies of a message, if the user wants that. Not of what came while nobody was connected. */
  #notify(message: Message): void {
    const { state } = this.client;
    if (state.name !== "online" || !state.isInStep) return;
    const { peer, from } = message;
    const notice = noticeOf(message, this.#known(peer), {
      account: this.account, language: this.language, title: this.#list.name(peer),
      from: this.#list.name(from), mode: this.#notices.mode,
    });
    if (notice !== undefined) this.#notices.show(peer, notice, () => this.open(peer));
  }

  /** The connection's state. */
  tell(state: State): void {
    const word = (it: Word) => wordOf(this.language, it);
    const [banner, again] = [by("banner"), by("again")];
    banner.classList.toggle("silent", state.name === "online");
    again.hidden = state.name === "online" || state.name === "connecting";
    if (state.name === "online") {
      by("banner-text").textContent = "";
      this.#attachments.show();
      this.#keeping.pump();
      this.#conversation?.resume();
      void this.#members?.refresh();
    } else if (state.name === "connecting") {
      by("banner-text").textContent = word("connecting");
    } else if (state.name === "waiting") {
      by("banner-text").textContent = word("lost");
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
    const peer = wholeName(name, this.#domain);
    this.#list.names(peer);
    this.open(peer);
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
      this.open(group);
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
    const hasFiles = this.#attachments.isWaiting && this.#editing === undefined;
    if (peer === undefined || (text.trim() === "" && !hasFiles)) return;
    field.value = "";
    this.#typing.leaves(true);
    this.written();
    this.#keeping.leaves();
    const editing = this.#editing;
    this.#editsNothing();
    this.#completion.close();
    const quote = this.#quoting;
    this.#quotes(undefined);
    if (hasFiles) this.#attachments.send(text);
    else if (editing === undefined) this.#send(peer, text, this.#said(peer, text, quote));
    else this.#sendEdit(peer, editing, text);
    field.focus();
  }

  /** Something was written into the field. */
  written(): void {
    const peer = this.#conversation?.peer;
    if (peer === undefined) return;
    const { value } = by<HTMLTextAreaElement>("text");
    // The server keeps no draft of what stands in no inbox.
    if (!isChatroom(peer)) {
      this.#keeping.writes(peer, value);
      this.#typing.writes(peer, value);
    }
    this.#completion.show();
    this.#longTexts.delete(peer);
    if (draftOf(value) !== value) this.#longTexts.set(peer, value);
    const [first] = this.#longTexts.keys();
    if (this.#longTexts.size > LONG_TEXTS_MAX) this.#longTexts.delete(first!);
  }

  /** What somebody began to write: whole, if it was begun here and nobody has gone on since. */
  #begun(peer: string): string {
    const draft = this.#keeping.drafts.of(peer) ?? this.#knownDraft;
    const whole = this.#longTexts.get(peer);
    return whole !== undefined && draftOf(whole) === draft ? whole : draft;
  }

  /** The page is looked at again, or no more. */
  seen(): void {
    if (document.visibilityState === "visible") this.#conversation?.scrolled();
    else this.leaves();
  }

  /** Nobody goes on writing here. */
  leaves(): void {
    this.#keeping.leaves();
  }

  /** Back to the people. */
  back(): void {
    const peer = this.#conversation?.peer;
    this.#leaveConversation();
    this.opened(undefined);
    this.#showList();
    if (peer === undefined || !this.#list.focus(peer)) by("peer").focus();
  }

  morePeople(): void {
    this.#list.more();
    this.#showList();
  }

  earlier(): void {
    void this.#conversation?.earlier();
  }

  newest(): void {
    this.#conversation?.newest();
  }

  scrolled(): void {
    this.#conversation?.scrolled();
  }

  #send(peer: string, text: string, said: Said = text): void {
    by("say-fault").textContent = "";
    this.client.send(peer, said).catch((error: ImError) => {
      const isKept = this.#failed.some(({ queued }) => queued.text === text);
      if (isKept || error.code === "closed") return;
      this.#tellFault(error.code);
      const field = by<HTMLTextAreaElement>("text");
      if (field.value !== "" || this.#conversation?.peer !== peer) return;
      field.value = text;
      this.written();
    });
    this.#conversation?.show(true);
  }

  /** What is said, with what it quotes and whom it mentions. */
  #said(peer: string, text: string, quote: Message | undefined): Said {
    const { mentions, mentionsEverybody } = mentionedIn(text, this.#domain, isGroup(peer));
    return {
      text,
      ...(quote && { quote: { seq: quote.seq, id: quote.id } }),
      ...(mentions.length > 0 && { mentions }),
      ...(mentionsEverybody && { mentionsEverybody }),
    };
  }

  /** Who may be named where one writes. */
  #names(): readonly string[] {
    const peer = this.#conversation?.peer;
    if (peer === undefined) return [];
    const others = this.#members?.addresses.filter((it) => it !== this.account) ?? [peer];
    const names = others.map((it) => shortName(it, this.#domain));
    return isGroup(peer) ? [...names, EVERYBODY] : names;
  }

  /** A key was pressed in the field; true: that is all it does. */
  presses(key: string): boolean {
    return this.#completion.presses(key);
  }

  /** Nobody writes in the field any more. */
  leavesField(): void {
    this.#completion.close();
  }

  /** Searches for what was named. */
  search(): void {
    this.#searching.begin();
  }

  searchOn(): void {
    this.#searching.more();
  }

  /** What is said next quotes this message, or none. */
  #quotes(message: Message | undefined): void {
    this.#quoting = message;
    by("quoting").hidden = message === undefined;
    by("quoted").textContent = message?.text.slice(0, QUOTED_MAX) ?? "";
    if (message === undefined) return;
    this.#editsNothing();
    by("text").focus();
  }

  cancelQuote(): void {
    this.#quotes(undefined);
    by("text").focus();
  }

  /** A message is to say something else: it is written anew in the field. */
  #edits(message: Message): void {
    this.#quotes(undefined);
    this.#editing = message;
    by("editing").hidden = false;
    const field = by<HTMLTextAreaElement>("text");
    field.value = message.text;
    field.focus();
  }

  /** Nothing is edited any more. */
  #editsNothing(): void {
    this.#editing = undefined;
    by("editing").hidden = true;
  }

  /** What was to be edited stays as it is. */
  cancelEdit(): void {
    if (this.#editing === undefined) return;
    this.#editsNothing();
    const field = by<HTMLTextAreaElement>("text");
    field.value = "";
    this.written();
    field.focus();
  }

  #sendEdit(peer: string, message: Message, text: string): void {
    by("say-fault").textContent = "";
    this.client.edit(peer, message, text).catch((error: ImError) => {
      if (error.code !== "closed") this.#tellFault(error.code);
    });
  }

  #tellFault(code: string): void {
    by("say-fault").textContent = sentenceOf(this.language, code);
  }

  #sendAgain(failed: Failed): void {
    this.#failed = this.#failed.filter((it) => it !== failed);
    const peer = this.#conversation?.peer;
    if (peer === undefined) return;
    this.open(peer);
    const { kind, text, extra, quote, mentions, mentionsEverybody } = failed.queued;
    this.#send(peer, text, { kind, text, extra, quote, mentions, mentionsEverybody });
  }

  #heard(message: Message): void {
    const { changes, peer } = message;
    this.#typing.said(message);
    this.#notify(message);
    for (const { verb, title } of changes) {
      if (verb === "create" || verb === "rename") this.#titled(peer, title);
    }
    if (this.#conversation?.peer !== peer) return;
    this.#conversation.live(message);
    if (changes.length > 0) void this.#members?.refresh();
  }

  /** Something in a chatroom, perhaps in the one that is looked at. */
  #happens(event: ChatroomEvent): void {
    if (this.#conversation?.peer !== event.room) return;
    if ("message" in event) this.#conversation.live(event.message);
    else if ("state" in event) this.#isSo(event.state);
    else if ("missed" in event) {
      by("say-fault").textContent = sentenceOfMissed(this.language, event.missed);
    } else this.#tellFault(event.out === "banned" ? "chatroom_banned" : event.out);
  }

  /** The head of a chatroom: its title, and how many are there. */
  #isSo({ room, title, here, announcement }: Chatroom): void {
    const name = announcement || title || this.#list.name(room);
    by("with").textContent = `${name} · ${here} ${wordOf(this.language, "inRoom")}`;
  }

  /** The list has changed: with it what is known of the conversation that is looked at. */
  #listed(): void {
    this.#showList();
    const peer = this.#conversation?.peer;
    if (peer === undefined) return;
    this.#options.show(peer);
    this.#showComposer(peer);
    this.#conversation?.listed();
    const draft = this.#known(peer)?.draft ?? "";
    if (draft === this.#knownDraft) return;
    this.#knownDraft = draft;
    const field = by<HTMLTextAreaElement>("text");
    // Another device has gone on writing; who writes here is not disturbed.
    if (this.#keeping.drafts.isUnderWay(peer) || draftOf(field.value) === draft) return;
    field.value = draft;
  }

  #known(peer: string) {
    return this.client.list.find((it) => it.peer === peer);
  }

  #titled(group: string, title: string): void {
    if (!this.#titles.put(group, title)) return;
    this.#kept.text = this.#titles.print();
    if (this.#conversation?.peer === group) by("with").textContent = this.#list.name(group);
    this.#showList();
  }

  /** @param place where it is opened; without it, where one has read to. */
  open(peer: string, place?: number): void {
    this.#leaveConversation();
    this.opened(peer);
    if (!isChatroom(peer)) this.client.look(peer);
    by("with").textContent = this.#list.name(peer);
    by("say-fault").textContent = "";
    by("start").hidden = true;
    by("conversation").hidden = false;
    document.body.classList.add("talking");
    this.#knownDraft = this.#known(peer)?.draft ?? "";
    const field = by<HTMLTextAreaElement>("text");
    field.value = this.#begun(peer);
    this.#options.show(peer);
    this.#attachments.open(peer);
    this.#typing.opens(peer);
    this.#contact.open(peer);
    this.#conversation = new Conversation(this.client, peer, this.account, this.#domain,
      this.language, this.#failed, {
        edit: (message) => this.#edits(message),
        quote: (message) => this.#quotes(message),
        sendAgain: (failed) => this.#sendAgain(failed),
        seen: (upto) => this.#keeping.sees(peer, upto),
        joined: (room) => this.#isSo(room),
        name: (address) => this.#list.name(address),
        read: () => this.#showComposer(peer),
      }, place);
    this.#members = isGroup(peer) ? new MembersPanel(this.client, peer, this.account, this.language,
      (title) => this.#titled(peer, title)) : undefined;
    this.#showComposer(peer);
    this.#showList();
    field.focus();
  }

  /** Where one is no member, the sentence why stands in the place of the field. */
  #showComposer(peer: string): void {
    if (this.#conversation?.peer !== peer) return;
    const { isInvited } = this.#conversation;
    const isClosed = isGroup(peer) && (isInvited || this.#known(peer)?.hasLeft === true);
    by("say").hidden = isClosed;
    by("closed").hidden = !isClosed;
    by("closed").textContent = isClosed
      ? wordOf(this.language, isInvited ? "closedInvited" : "closedLeft") : "";
    by("members-shown").hidden = !isGroup(peer) || isClosed;
    if (isClosed) by("group").hidden = true;
  }

  #leaveConversation(): void {
    this.#keeping.leaves();
    this.#typing.leaves(false);
    this.#typing.opens(undefined);
    this.#editsNothing();
    this.#quotes(undefined);
    this.#completion.close();
    this.#conversation?.close();
    this.#members?.close();
    [this.#conversation, this.#members] = [undefined, undefined];
    this.#attachments.open(undefined);
    this.#contact.open(undefined);
    by("start").hidden = false;
    by("conversation").hidden = true;
    document.body.classList.remove("talking");
  }

  #showList(): void {
    this.#list.show(this.#conversation?.peer);
  }
}
