/**
 * What people say, as an application sees it.
 *
 * Places and times are numbers: a server would have to take a million messages a second for 285
 * years to leave what a number holds exactly, and what is beyond is a fault. A message's `id` uses
 * all of its 64 bits and is a `bigint`.
 */

import { isChatroom } from "./chatroom.js";
import { message as fieldsOf, utf8, WireFault } from "./wire.js";
import type { Fields } from "./wire.js";
import { CONTENT } from "./frames.js";
import type { ChatMessageFields } from "./frames.js";
import { changesOf, isGroup } from "./group.js";
import type { GroupChange } from "./group.js";

/** What is said (IM 4.1). */
export interface Content {
  /** What it is: 1 is text; 1,000 to 65,535 are an application's own. */
  readonly kind: number;
  /** For people, and to be searched. */
  readonly text: string;
  /** Opaque bytes beside it. */
  readonly extra: Uint8Array;
  /** It does not count as unread. */
  readonly uncounted: boolean;
  /** The message of the same conversation that it quotes (IM 16.5). */
  readonly quote?: Quote | undefined;
  /** Whom it mentions, by their addresses (IM 16.6). */
  readonly mentions?: readonly string[] | undefined;
  /** It mentions everybody who is in the conversation. */
  readonly mentionsEverybody?: boolean | undefined;
}

/** A message that another one quotes. */
export interface Quote {
  readonly seq: number;
  readonly id: bigint;
  /** Who said it; the server tells. */
  readonly from?: string;
  /** The beginning of its text, of what is told live. */
  readonly text?: string;
}

/** A message at its place in its conversation. */
export interface Message extends Content {
  /** The server's number for it. */
  readonly id: bigint;
  /** Its place in the conversation, from 1 without gaps. */
  readonly seq: number;
  /** When the server took it, Unix milliseconds. */
  readonly at: number;
  /** Who said it, `name@domain`, and on which device. */
  readonly from: string;
  readonly device: string;
  /** To whom, `name@domain`, or to which group. */
  readonly to: string;
  /** The sender's id for it: 32 hex digits. */
  readonly clientId: string;
  /** Whose conversation with this account it is: the other one of the two, or the group. */
  readonly peer: string;
  /** This account said it, here or on another device. */
  readonly isOwn: boolean;
  /** What happened in the group, in its order; empty: it tells of nothing that is known here. */
  readonly changes: readonly GroupChange[];
  /** The place of the message that it calls back, if that is what it tells (IM 11.5). */
  readonly recall: number | undefined;
  /** The message that it edits (its text is the new one) or reacts to, if it does (IM 16). */
  readonly target: Target | undefined;
  /** When it was edited last, Unix milliseconds; `undefined`: it was not. */
  readonly editedAt: number | undefined;
  /** Who reacts to it, each once. */
  readonly reactions: readonly Reaction[];
}

/** A message that another one is about. */
export interface Target {
  readonly seq: number;
  readonly id: bigint;
}

/** How somebody reacts to a message. */
export interface Reaction {
  readonly by: string;
  /** The emoji, one at least. */
  readonly emoji: readonly string[];
}

/** A message that edits another one, and one by which somebody reacts to another one (IM 8.3). */
export const EDIT = 6;
export const REACTION = 7;


/** A message that tells that another one was called back (IM 8.3). */
const RECALL = 4;
/** A message that was called back: it says nothing any more. */
export const RECALLED = 5;

/** A message that is stored (IM 4.2). */
export interface Sent {
  readonly id: bigint;
  readonly seq: number;
  readonly at: number;
  readonly clientId: string;
  /** The whole address it was sent to. */
  readonly peer: string;
}

/** A message that tells that another one was called back, stored (IM 11.5). */
export interface Recalled {
  readonly id: bigint;
  readonly seq: number;
  readonly at: number;
}

/** A message that waits for the server to store it. */
export interface Queued extends Content {
  readonly clientId: string;
  /** To whom, as the application said it. */
  readonly to: string;
  /** When it was said, Unix milliseconds by this machine's clock. */
  readonly saidAt: number;
}

/** A place, a time or a count, where a number holds it exactly. */
export function exact(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new WireFault("range");
  return Number(value);
}

/** Whose conversation with an account something is said in: the other one, or a group, or a room. */
export function peerOf({ from, to }: { from: string; to: string }, account: string): string {
  return from === account || isGroup(to) || isChatroom(to) ? to : from;
}

/** A message of the wire, as this account sees it. */
export function messageOf(fields: ChatMessageFields, account: string): Message {
  const isOwn = fields.from === account;
  const content = contentOf(fields.content ?? fieldsOf(CONTENT));
  const { kind, text, extra } = content;
  return {
    id: fields.id,
    seq: exact(fields.seq),
    at: exact(fields.at_ms),
    from: fields.from,
    device: fields.device,
    to: fields.to,
    clientId: hex(fields.client_id),
    peer: peerOf(fields, account),
    isOwn,
    changes: changesOf(kind, text, extra),
    recall: recallOf(kind, extra),
    target: targetOf(kind, extra),
    editedAt: fields.edited_ms > 0n ? exact(fields.edited_ms) : undefined,
    reactions: fields.reactions.map(({ by, emoji }) => ({ by, emoji: emojiOf(emoji) })),
    ...content,
  };
}

/** What is said, without what it does not say. */
function contentOf(fields: Fields<typeof CONTENT>): Content {
  const { kind, text, extra, uncounted, quote, mentions, mentions_everybody: isAll } = fields;
  return {
    kind,
    text,
    extra,
    uncounted,
    ...(quote && { quote: { ...quote, seq: exact(quote.seq) } }),
    ...(mentions.length > 0 && { mentions }),
    ...(isAll && { mentionsEverybody: true }),
  };
}

/** Whether a message of somebody else mentions this account. */
export function isMentioned({ mentions, mentionsEverybody, isOwn }: Message, account: string): boolean {
  return !isOwn && (mentionsEverybody === true || mentions?.includes(account) === true);
}

/** The place of what is called back: the first of two numbers in decimal. */
function recallOf(kind: number, extra: Uint8Array): number | undefined {
  if (kind !== RECALL) return undefined;
  const place = /^(\d{1,15}) \d{1,20}([ \n]|$)/.exec(new TextDecoder().decode(extra))?.[1];
  return place === undefined ? undefined : Number(place);
}

/** The message that one of these kinds is about. */
export function targetOf(kind: number, extra: Uint8Array): Target | undefined {
  if (kind !== EDIT && kind !== REACTION) return undefined;
  const found = /^(\d{1,15}) (\d{1,20})([ \n]|$)/.exec(new TextDecoder().decode(extra));
  return found === null ? undefined : { seq: Number(found[1]), id: BigInt(found[2]!) };
}

/** The emoji of a reaction. */
export function emojiOf(text: string): string[] {
  return text.split(" ").filter((it) => it !== "");
}

/** What is to be said so that a message says something else, or somebody reacts to it. */
export function amendment(kind: number, { seq, id }: Target, text: string) {
  return { kind, text, extra: utf8(`${seq} ${id}`), uncounted: true };
}

/** A message as it is after this one was heard: edited, or reacted to; else as it was. */
export function amended(message: Message, by: Message): Message {
  const { target, kind, text, from, at } = by;
  if (target === undefined || target.id !== message.id || message.kind === RECALLED) return message;
  if (kind === EDIT) return text === "" ? message : { ...message, text, editedAt: at };
  const others = message.reactions.filter((it) => it.by !== from);
  const emoji = emojiOf(text);
  return { ...message, reactions: emoji.length === 0 ? others : [...others, { by: from, emoji }] };
}

/** The fields of what is said. */
export function contentFields(content: Content): Fields<typeof CONTENT> {
  const { kind, text, extra, uncounted, quote, mentions = [], mentionsEverybody } = content;
  const quoted = quote && { seq: BigInt(quote.seq), id: quote.id, from: "", text: "" };
  const all = { mentions: [...mentions], mentions_everybody: mentionsEverybody ?? false };
  return { kind, text, extra, uncounted, quote: quoted, ...all };
}

/** Bytes of a content, as the server's limits count them. */
export function contentBytes(content: Content): { text: number; extra: number } {
  const mentions = (content.mentions ?? []).map((it) => utf8(it).length + 4);
  const extra = mentions.reduce((sum, bytes) => sum + bytes, content.extra.length);
  return { text: utf8(content.text).length, extra };
}

/** An address with its domain: `domain` where it has none. */
export function whole(address: string, domain: string): string {
  return address.includes("@") ? address : `${address}@${domain}`;
}

/** Bytes as hex digits. */
export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Hex digits as bytes. */
export function unhex(digits: string): Uint8Array {
  const pairs = digits.match(/[0-9a-f]{2}/g) ?? [];
  return Uint8Array.from(pairs, (pair) => parseInt(pair, 16));
}
