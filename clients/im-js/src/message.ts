/**
 * What people say, as an application sees it.
 *
 * Places and times are numbers: a server would have to take a million messages a second for 285
 * years to leave what a number holds exactly, and what is beyond is a fault. A message's `id` uses
 * all of its 64 bits and is a `bigint`.
 */

import { message as fieldsOf, utf8, WireFault } from "./wire.js";
import type { Fields } from "./wire.js";
import { CONTENT } from "./frames.js";
import type { ChatMessageFields } from "./frames.js";
import { changeOf, isGroup } from "./group.js";
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
  /** What happened in the group, if that is what it tells. */
  readonly change: GroupChange | undefined;
  /** The place of the message that it calls back, if that is what it tells (IM 11.5). */
  readonly recall: number | undefined;
}

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

/** A message of the wire, as this account sees it. */
export function messageOf(fields: ChatMessageFields, account: string): Message {
  const isOwn = fields.from === account;
  const { kind, text, extra, uncounted } = fields.content ?? fieldsOf(CONTENT);
  return {
    id: fields.id,
    seq: exact(fields.seq),
    at: exact(fields.at_ms),
    from: fields.from,
    device: fields.device,
    to: fields.to,
    clientId: hex(fields.client_id),
    peer: isOwn || isGroup(fields.to) ? fields.to : fields.from,
    isOwn,
    change: changeOf(kind, text, extra),
    recall: recallOf(kind, extra),
    kind,
    text,
    extra,
    uncounted,
  };
}

/** The place of what is called back: the first of two numbers in decimal. */
function recallOf(kind: number, extra: Uint8Array): number | undefined {
  if (kind !== RECALL) return undefined;
  const place = /^(\d{1,15}) \d{1,20}$/.exec(new TextDecoder().decode(extra))?.[1];
  return place === undefined ? undefined : Number(place);
}

/** The fields of what is said. */
export function contentFields(content: Content): Fields<typeof CONTENT> {
  const { kind, text, extra, uncounted } = content;
  return { kind, text, extra, uncounted };
}

/** Bytes of a content, as the server's limits count them. */
export function contentBytes(content: Content): { text: number; extra: number } {
  return { text: utf8(content.text).length, extra: content.extra.length };
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
