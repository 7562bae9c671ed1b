/**
 * The list of an account's conversations, kept right: pages of the server, and what the inbox says
 * behind the place up to which each page is right (IM 11.4).
 *
 * ```text
 *   page by page ──► whole        a conversation that is not known, or of which the inbox does not
 *        │             │          say how much is unread now, is asked for by itself
 *        └─── one ◄────┘
 * ```
 * Knows no frames and no clock. One thing is asked for at a time. Invariant: whatever is lost in
 * between, each conversation is what some page said of it and all that the inbox said behind that
 * page's place, each once; there are at most so many.
 */

import { excerptOf, unknownConversation, UNREAD_MAX } from "./conversation.js";
import type {
  Conversation, ConversationEvent, ConversationsPage, Excerpt,
} from "./conversation.js";
import { endsMembership, isOfNothingKnown } from "./group.js";
import type { InboxEntry } from "./inbox.js";
import { EDIT, isMentioned, RECALLED } from "./message.js";
import type { Message, Target } from "./message.js";

/** After something that the server could not say now, milliseconds. */
const AGAIN_MS = 1_000;
/** What is kept of what is heard while an answer is under way; with more it is asked for anew. */
const SINCE_MAX = 1_024;

/** What a list wants to know: one conversation, or, without `peer`, those before a place. */
export interface ListOrder {
  readonly peer: string;
  /** 0: the newest. */
  readonly before: number;
}

/** A message, as far as a list is concerned. */
interface Said {
  readonly seq: number;
  readonly counts: boolean;
  /** The place of the message that it calls back. */
  readonly recall: number | undefined;
  /** The message that it edits or reacts to. */
  readonly target: Target | undefined;
  /** It says nothing by itself, and amends nothing. */
  readonly isQuiet: boolean;
  /** It mentions the account. */
  readonly mentions: boolean;
  /** It ends this account's membership. */
  readonly ends: boolean;
  readonly excerpt: Excerpt;
}

/** What was told of a conversation, at its place in the inbox. */
interface Heard {
  readonly peer: string;
  readonly place: number;
  readonly what: Said | ConversationEvent;
}

/** A conversation, and how it is known. */
interface Row {
  conversation: Conversation;
  /** A page has said what it was at this place of the inbox; 0: none has. */
  readonly upto: number;
  /** All messages that count have their places up to this one. */
  counted: number;
  /** It is to be asked for. */
  isStale: boolean;
  /**
   * The last own message that was stored. At which place it stands is not told (IM 5.2), but that
   * it is not before this one: a page may be of a moment before it came into the inbox.
   */
  own: { readonly place: number; readonly said: Said } | undefined;
  /** The last place at which something was heard of it; infinite: it is to be asked for anyway. */
  heardUpto: number;
}

/** The list. */
export class ConversationList {
  readonly #rows = new Map<string, Row>();
  readonly #stale = new Set<string>();
  #isOnline = false;
  /** Whose list it is. */
  #account = "";
  #asked: ListOrder | undefined;
  /** What was heard while an answer is under way. */
  #since: Heard[] = [];
  #againAt = 0;
  /** The first page was right up to here; 0: it has not come. */
  #upto = 0;
  #hasBegun = false;
  /** Before which place to go on; `undefined`: the list is whole. */
  #before: number | undefined = 0;
  #sorted: readonly Conversation[] | undefined;

  /** @param most conversations that are kept, of those that are not pinned the newest; 0: none. */
  constructor(private readonly most: number) {}

  /** The pinned ones first, then the newest, hidden ones among them. The same until it changes. */
  get all(): readonly Conversation[] {
    this.#sorted ??= this.#inOrder().map(({ conversation }) => conversation);
    return this.#sorted;
  }

  /** All that the server would tell, or as many as are kept, have been read. */
  get isWhole(): boolean {
    return this.#hasBegun && this.#before === undefined;
  }

  get wakeAt(): number {
    const wants = this.#isOnline && this.#asked === undefined && this.#wanted !== undefined;
    return wants ? this.#againAt : Infinity;
  }

  // ---- the connection

  /** Somebody is there to be asked. `isSame`: the inbox is the one that was followed. */
  online(isSame: boolean, account: string): void {
    [this.#isOnline, this.#account] = [true, account];
    if (isSame || this.most === 0) return;
    this.#rows.clear();
    this.#stale.clear();
    [this.#upto, this.#before, this.#hasBegun] = [0, 0, false];
    this.#sorted = undefined;
  }

  /** Nobody answers any more. */
  lost(): void {
    [this.#isOnline, this.#asked, this.#againAt] = [false, undefined, 0];
    this.#since = [];
  }

  /** What is to be asked now. */
  order(now: number): ListOrder | undefined {
    if (!this.#isOnline || this.#asked !== undefined || now < this.#againAt) return undefined;
    this.#asked = this.#wanted;
    return this.#asked;
  }

  get #wanted(): ListOrder | undefined {
    if (this.most === 0) return undefined;
    if (!this.#hasBegun) return { peer: "", before: 0 };
    const [peer] = this.#stale;
    if (peer !== undefined) return { peer, before: 0 };
    return this.#before === undefined ? undefined : { peer: "", before: this.#before };
  }

  /** What was asked for has come. */
  page(page: ConversationsPage): void {
    const asked = this.#asked;
    if (asked === undefined) return;
    const isOverrun = this.#since.length > SINCE_MAX;
    this.#asked = undefined;
    if (isOverrun) this.#since = [];
    else this.#take(asked, page);
  }

  #take(asked: ListOrder, page: ConversationsPage): void {
    if (asked.peer !== "") {
      const found = page.conversations.find(({ peer }) => peer === asked.peer);
      if (found === undefined) this.#isNone(asked.peer);
      else this.#put(found, page.upto);
    } else {
      page.conversations.forEach((it) => this.#put(it, page.upto));
      if (!this.#hasBegun) this.#begin(page.upto);
      const next = page.conversations.at(-1)?.place ?? 0;
      // Places fall from page to page; a server that does not keep to it is not followed for ever.
      const goesOn = page.hasMore && next > 0 && (asked.before === 0 || next < asked.before);
      this.#before = goesOn && this.#rows.size < this.most ? next : undefined;
    }
    this.#since = [];
    this.#sorted = undefined;
    this.#trim();
  }

  /** What was asked for is not told; `asksAgain`: not now. */
  failed(now: number, asksAgain: boolean): void {
    const asked = this.#asked;
    this.#asked = undefined;
    if (asked === undefined) return;
    if (asksAgain) this.#againAt = now + AGAIN_MS;
    else if (asked.peer !== "") this.#isNone(asked.peer);
    else [this.#hasBegun, this.#before, this.#sorted] = [true, undefined, undefined];
    this.#since = [];
  }

  // ---- what is told

  /** This stands at the next place of the inbox. */
  entry(place: number, entry: InboxEntry): void {
    const peer = entry.message?.peer ?? entry.event?.peer ?? "";
    if (peer === "" || this.most === 0) return;
    const known = this.#rows.get(peer);
    // What stood there when it was read is in it; or it is hidden, or on a page to come.
    if (place <= (known === undefined ? this.#upto : known.upto)) return;
    const what = entry.message === undefined ? entry.event! : saidOf(entry.message, this.#account);
    const row = known ?? this.#unknown(peer);
    row.heardUpto = Math.max(row.heardUpto, place);
    apply(row, { peer, place, what });
    // One more than is kept shows that some are missing.
    const isKept = this.#asked !== undefined && this.#since.length <= SINCE_MAX;
    if (isKept) this.#since.push({ peer, place, what });
    this.#changed(row);
  }

  /** Somebody looks at a conversation: it is of the list, if the account knows of it. */
  look(peer: string): void {
    if (peer === "" || this.most === 0 || this.#rows.has(peer)) return;
    const row = this.#unknown(peer);
    row.heardUpto = Infinity;
    this.#changed(row);
  }

  /** An own message is stored, not before this place. */
  stored(place: number, message: Message): void {
    if (this.most === 0) return;
    const row = this.#rows.get(message.peer) ?? this.#unknown(message.peer);
    row.heardUpto = Infinity;
    row.own = { place, said: saidOf(message, "") };
    applyOwn(row);
    this.#changed(row);
  }

  #changed(row: Row): void {
    this.#mark(row);
    this.#sorted = undefined;
    this.#trim();
  }

  #unknown(peer: string): Row {
    const row = rowOf(unknownConversation(peer), 0);
    row.isStale = true;
    this.#rows.set(peer, row);
    return row;
  }

  #mark(row: Row): void {
    if (row.isStale) this.#stale.add(row.conversation.peer);
    else this.#stale.delete(row.conversation.peer);
  }

  /** The first page has come: what is not in it, and was not heard of since, is not of the list. */
  #begin(upto: number): void {
    [this.#hasBegun, this.#upto] = [true, upto];
    for (const [peer, row] of this.#rows) {
      if (row.upto === 0 && row.heardUpto <= upto) this.#drop(peer);
    }
  }

  /** A page says that it was so at a place; what was heard behind that place comes on top. */
  #put(conversation: Conversation, upto: number): void {
    const { peer } = conversation;
    const known = this.#rows.get(peer);
    // Pages do not go back; a server whose pages do is not asked for the same for ever.
    const isOld = known !== undefined && known.upto > upto;
    const row = isOld ? known : rowOf(withChange(conversation, known), upto);
    if (row !== known) this.#since.filter((it) => it.peer === peer).forEach((it) => apply(row, it));
    else row.isStale = false;
    [row.own, row.heardUpto] = [known?.own, known?.heardUpto ?? 0];
    applyOwn(row);
    this.#rows.set(peer, row);
    this.#mark(row);
    this.#sorted = undefined;
  }

  /** The account knows nothing of this conversation but what was heard here. */
  #isNone(peer: string): void {
    const row = this.#rows.get(peer);
    if (row === undefined) return;
    row.isStale = false;
    this.#mark(row);
    if (row.conversation.seq === 0) this.#drop(peer);
  }

  #drop(peer: string): void {
    this.#rows.delete(peer);
    this.#stale.delete(peer);
    this.#sorted = undefined;
  }

  #trim(): void {
    if (this.#rows.size <= this.most) return;
    this.#inOrder().slice(this.most).forEach(({ conversation }) => this.#drop(conversation.peer));
    this.#before = undefined;
  }

  #inOrder(): Row[] {
    return [...this.#rows.values()].sort(({ conversation: one }, { conversation: other }) =>
      Number(other.isPinned) - Number(one.isPinned) || other.place - one.place);
  }
}

/** Lists do not tell what happened in a group; what was heard of the same message does. */
function withChange(conversation: Conversation, known: Row | undefined): Conversation {
  const [last, heard] = [conversation.last, known?.conversation.last];
  if (last === undefined || last.id !== heard?.id || last.kind !== heard.kind) return conversation;
  return { ...conversation, last: { ...last, changes: heard.changes } };
}

function rowOf(conversation: Conversation, upto: number): Row {
  const { unread, seq, read } = conversation;
  const counted = unread > 0 ? seq : Math.min(read, seq);
  return { conversation, upto, counted, isStale: false, own: undefined, heardUpto: 0 };
}

function saidOf(message: Message, account: string): Said {
  const { seq, recall, target, uncounted, kind, changes, isOwn } = message;
  const counts = !message.isOwn && !uncounted && kind !== RECALLED;
  const ends = endsMembership(changes, isOwn, account);
  const isQuiet = isOfNothingKnown(message);
  const mentions = isMentioned(message, account);
  return { seq, counts, recall, target, isQuiet, mentions, ends, excerpt: excerptOf(message) };
}

/** Brings a conversation up to date, unless a page has that already. */
function apply(row: Row, { place, what }: Heard): void {
  if (place <= row.upto) return;
  if ("excerpt" in what) said(row, what, place);
  else happened(row, what);
}

/** The last own message, unless a page has it already. */
function applyOwn(row: Row): void {
  const { own, conversation } = row;
  if (own !== undefined && own.said.seq > conversation.seq) said(row, own.said, own.place);
}

function said(row: Row, told: Said, place: number): void {
  const { seq, recall, target, excerpt, counts, mentions } = told;
  const { conversation } = row;
  if (target !== undefined || told.isQuiet) return amends(row, told, target, place);
  const isNewest = seq >= conversation.saidSeq;
  const isUnread = counts && seq > conversation.read;
  if (isUnread) row.counted = Math.max(row.counted, seq);
  row.conversation = {
    ...conversation,
    place: Math.max(conversation.place, place),
    seq: Math.max(conversation.seq, seq),
    saidSeq: Math.max(conversation.saidSeq, seq),
    last: isNewest ? excerpt : conversation.last,
    isHidden: false,
    hasLeft: told.ends,
    unread: Math.min(UNREAD_MAX, conversation.unread + Number(isUnread)),
    mentions: Math.min(UNREAD_MAX, conversation.mentions + Number(isUnread && mentions)),
  };
  const wasUnread = recall !== undefined && recall > conversation.read && recall <= row.counted;
  if (wasUnread && conversation.unread > 0) row.isStale = true;
}

/** An edit, a reaction, or what is not known here moves nothing; what was said last may say
 * something else now. */
function amends(
  row: Row,
  { seq, excerpt }: Said,
  target: Target | undefined,
  place: number,
): void {
  const { conversation } = row;
  const { last } = conversation;
  const isEdit = excerpt.kind === EDIT && excerpt.text !== "";
  const isOfLast = target !== undefined && last?.id === target.id && isEdit;
  row.conversation = {
    ...conversation,
    place: conversation.saidSeq === 0 ? place : conversation.place,
    seq: Math.max(conversation.seq, seq),
    last: isOfLast ? { ...last!, text: excerpt.text } : last,
  };
}

function happened(row: Row, { place, read = 0, peerRead = 0, change }: ConversationEvent): void {
  const { conversation } = row;
  let { unread, mentions } = conversation;
  if (read > conversation.read && unread > 0) {
    // How much of it is left is known where none is.
    if (read >= row.counted) [unread, mentions] = [0, 0];
    else row.isStale = true;
  }
  const kept = change === undefined ? {} : {
    ...(change.setting === "pin" && { isPinned: change.isOn }),
    ...(change.setting === "mute" && { isMuted: change.isOn }),
    ...(change.setting === "hide" && { isHidden: change.isOn }),
    ...(change.setting === "draft" && { draft: change.draft }),
  };
  row.conversation = {
    ...conversation,
    ...kept,
    unread,
    mentions,
    place: conversation.saidSeq === 0 ? place : conversation.place,
    read: Math.max(conversation.read, read),
    peerRead: Math.max(conversation.peerRead, peerRead),
  };
}
