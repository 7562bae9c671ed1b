/**
 * What an account knows of its conversations (IM 11), as an application sees it: how far each is
 * read, what is unread of it, and how it is kept.
 *
 * Knows no connection. What a later version of the wire added is left out, and harms nothing.
 */

import type {
  ChangeFields, ConversationFields, ConversationsFields, EventFields, ExcerptFields,
} from "./frames.js";
import type { GroupChange } from "./group.js";
import { exact } from "./message.js";
import type { Message } from "./message.js";

/** Unread messages that are counted; so many stand for "or more" (IM 11.4). */
export const UNREAD_MAX = 1_024;
/** Bytes of a draft that servers take, unless they are told otherwise (IM 9). */
export const DRAFT_BYTES_MAX = 1_024;
/** Characters of an excerpt that is made here. */
const EXCERPT_MAX = 256;

/** How a conversation may be kept, by the numbers on the wire less one (IM 8.6). */
export const CONVERSATION_SETTINGS = ["pin", "mute", "hide", "draft"] as const;

/** How a conversation is to be kept; what is left out stays as it is. */
export interface ConversationSettings {
  /** It is shown before the others. */
  readonly pin?: boolean;
  /** Its messages make no noise. */
  readonly mute?: boolean;
  /** It is not shown until something is said there. */
  readonly hide?: boolean;
  /** What somebody began to write there; empty: nothing. */
  readonly draft?: string;
}

/** One setting that is changed. */
export type ConversationChange =
  | { readonly setting: "pin" | "mute" | "hide"; readonly isOn: boolean }
  | { readonly setting: "draft"; readonly draft: string };

/** The beginning of a message. */
export interface Excerpt {
  readonly id: bigint;
  readonly at: number;
  readonly from: string;
  readonly isOwn: boolean;
  readonly kind: number;
  readonly text: string;
  /** That is all of it. */
  readonly isWhole: boolean;
  /** What happened in the group, where that is known: lists of the server do not tell it. */
  readonly changes: readonly GroupChange[];
}

/** A conversation, as its account has it. */
export interface Conversation {
  /** Whom it is with: somebody's whole address, or a group's. */
  readonly peer: string;
  /** Where it stands among the others: the place in the inbox of what was said last. */
  readonly place: number;
  /** The last place of the conversation; 0: nothing was said. */
  readonly seq: number;
  /** That of what was said last, edits and reactions apart. */
  readonly saidSeq: number;
  /** What was said last; `undefined`: nothing, or it is not there any more. */
  readonly last: Excerpt | undefined;
  /** The account has read up to this place. */
  readonly read: number;
  /** The other of two has; 0 in a group. */
  readonly peerRead: number;
  /** What is unread; {@link UNREAD_MAX} means "or more". */
  readonly unread: number;
  /** What of that mentions the account. */
  readonly mentions: number;
  readonly isPinned: boolean;
  readonly isMuted: boolean;
  readonly isHidden: boolean;
  /** The account was in the group, and is no more. */
  readonly hasLeft: boolean;
  readonly draft: string;
}

/** A part of the list of conversations, the newest first. */
export interface ConversationsPage {
  readonly conversations: readonly Conversation[];
  /** It is what the inbox says up to this place. */
  readonly upto: number;
  /** There are more, before the `place` of the last. */
  readonly hasMore: boolean;
}

/** What happened to a conversation beside what was said: one of the three (IM 11.1). */
export interface ConversationEvent {
  /** Its place in the inbox. */
  readonly place: number;
  readonly peer: string;
  /** The account has read up to this place, here or on another device. */
  readonly read: number | undefined;
  /** The other of two has read up to this place. */
  readonly peerRead: number | undefined;
  /** The account keeps it otherwise. */
  readonly change: ConversationChange | undefined;
}

/** What an entry of the inbox tells; `undefined`: nothing that is known here. */
export function eventOf(fields: EventFields): ConversationEvent | undefined {
  const place = exact(fields.seq);
  const [read, peerRead] = [exact(fields.read), exact(fields.peer_read)];
  const change = fields.change && changeOf(fields.change);
  const isKnown = read > 0 || peerRead > 0 || change !== undefined;
  if (!isKnown || fields.with === "") return undefined;
  const told = (upto: number) => (upto > 0 ? upto : undefined);
  return { place, peer: fields.with, read: told(read), peerRead: told(peerRead), change };
}

function changeOf({ setting, on: isOn, draft }: ChangeFields): ConversationChange | undefined {
  const name = CONVERSATION_SETTINGS[setting - 1];
  if (name === undefined) return undefined;
  return name === "draft" ? { setting: name, draft } : { setting: name, isOn };
}

/** Settings as the changes that a server is asked for, one at a time. */
export function changesOf(settings: ConversationSettings): ChangeFields[] {
  return CONVERSATION_SETTINGS.flatMap((name, at) => {
    const value = settings[name];
    if (value === undefined) return [];
    const [on, draft] = typeof value === "string" ? [false, value] : [value, ""];
    return [{ setting: at + 1, on, draft }];
  });
}

/** A part of the list, as this account sees it. */
export function pageOf(fields: ConversationsFields, account: string): ConversationsPage {
  const named = fields.conversations.filter((it) => it.with !== "");
  const conversations = named.map((it) => conversationOf(it, account));
  return { conversations, upto: exact(fields.upto), hasMore: fields.more };
}

function conversationOf(fields: ConversationFields, account: string): Conversation {
  return {
    peer: fields.with,
    place: exact(fields.place),
    seq: exact(fields.last_seq),
    saidSeq: exact(fields.said_seq),
    last: fields.last && excerptOfFields(fields.last, account),
    read: exact(fields.read),
    peerRead: exact(fields.peer_read),
    unread: Math.min(fields.unread, UNREAD_MAX),
    mentions: Math.min(fields.mentions, UNREAD_MAX),
    isPinned: fields.pinned,
    isMuted: fields.muted,
    isHidden: fields.hidden,
    hasLeft: fields.left,
    draft: fields.draft,
  };
}

function excerptOfFields(fields: ExcerptFields, account: string): Excerpt {
  const { id, from, kind, text, whole: isWhole } = fields;
  const isOwn = from === account;
  return { id, at: exact(fields.at_ms), from, isOwn, kind, text, isWhole, changes: [] };
}

/** The beginning of a message. */
export function excerptOf(message: Message): Excerpt {
  const { id, at, from, isOwn, kind, changes } = message;
  // Cut by characters: one of two units is not taken in halves.
  const text = Array.from(message.text.slice(0, 2 * EXCERPT_MAX)).slice(0, EXCERPT_MAX).join("");
  const isWhole = text.length === message.text.length && message.extra.length === 0;
  return { id, at, from, isOwn, kind, text, isWhole, changes };
}

/** A conversation of which nothing is known yet. */
export function unknownConversation(peer: string): Conversation {
  return {
    peer, place: 0, seq: 0, saidSeq: 0, last: undefined, read: 0, peerRead: 0, unread: 0,
    mentions: 0,
    isPinned: false, isMuted: false, isHidden: false, hasLeft: false, draft: "",
  };
}
