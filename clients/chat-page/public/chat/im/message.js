/**
 * What people say, as an application sees it.
 *
 * Places and times are numbers: a server would have to take a million messages a second for 285
 * years to leave what a number holds exactly, and what is beyond is a fault. A message's `id` uses
 * all of its 64 bits and is a `bigint`.
 */
import { isChatroom } from "./chatroom.js";
import { message as fieldsOf, utf8, WireFault } from "./wire.js";
import { CONTENT } from "./frames.js";
import { changesOf, isGroup } from "./group.js";
/** A message that edits another one, and one by which somebody reacts to another one (IM 8.3). */
export const EDIT = 6;
export const REACTION = 7;
/** A message that tells that another one was called back (IM 8.3). */
const RECALL = 4;
/** A message that was called back: it says nothing any more. */
export const RECALLED = 5;
/** A place, a time or a count, where a number holds it exactly. */
export function exact(value) {
    if (value > BigInt(Number.MAX_SAFE_INTEGER))
        throw new WireFault("range");
    return Number(value);
}
/** Whose conversation with an account something is said in: the other one, or a group, or a room. */
export function peerOf({ from, to }, account) {
    return from === account || isGroup(to) || isChatroom(to) ? to : from;
}
/** A message of the wire, as this account sees it. */
export function messageOf(fields, account) {
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
function contentOf(fields) {
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
export function isMentioned({ mentions, mentionsEverybody, isOwn }, account) {
    return !isOwn && (mentionsEverybody === true || mentions?.includes(account) === true);
}
/** The place of what is called back: the first of two numbers in decimal. */
function recallOf(kind, extra) {
    if (kind !== RECALL)
        return undefined;
    const place = /^(\d{1,15}) \d{1,20}([ \n]|$)/.exec(new TextDecoder().decode(extra))?.[1];
    return place === undefined ? undefined : Number(place);
}
/** The message that one of these kinds is about. */
export function targetOf(kind, extra) {
    if (kind !== EDIT && kind !== REACTION)
        return undefined;
    const found = /^(\d{1,15}) (\d{1,20})([ \n]|$)/.exec(new TextDecoder().decode(extra));
    return found === null ? undefined : { seq: Number(found[1]), id: BigInt(found[2]) };
}
/** The emoji of a reaction. */
export function emojiOf(text) {
    return text.split(" ").filter((it) => it !== "");
}
/** What is to be said so that a message says something else, or somebody reacts to it. */
export function amendment(kind, { seq, id }, text) {
    return { kind, text, extra: utf8(`${seq} ${id}`), uncounted: true };
}
/** A message as it is after this one was heard: edited, or reacted to; else as it was. */
export function amended(message, by) {
    const { target, kind, text, from, at } = by;
    if (target === undefined || target.id !== message.id || message.kind === RECALLED)
        return message;
    if (kind === EDIT)
        return text === "" ? message : { ...message, text, editedAt: at };
    const others = message.reactions.filter((it) => it.by !== from);
    const emoji = emojiOf(text);
    return { ...message, reactions: emoji.length === 0 ? others : [...others, { by: from, emoji }] };
}
/** The fields of what is said. */
export function contentFields(content) {
    const { kind, text, extra, uncounted, quote, mentions = [], mentionsEverybody } = content;
    const quoted = quote && { seq: BigInt(quote.seq), id: quote.id, from: "", text: "" };
    const all = { mentions: [...mentions], mentions_everybody: mentionsEverybody ?? false };
    return { kind, text, extra, uncounted, quote: quoted, ...all };
}
/** Bytes of a content, as the server's limits count them. */
export function contentBytes(content) {
    const mentions = (content.mentions ?? []).map((it) => utf8(it).length + 4);
    const extra = mentions.reduce((sum, bytes) => sum + bytes, content.extra.length);
    return { text: utf8(content.text).length, extra };
}
/** An address with its domain: `domain` where it has none. */
export function whole(address, domain) {
    return address.includes("@") ? address : `${address}@${domain}`;
}
/** Bytes as hex digits. */
export function hex(bytes) {
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
/** Hex digits as bytes. */
export function unhex(digits) {
    const pairs = digits.match(/[0-9a-f]{2}/g) ?? [];
    return Uint8Array.from(pairs, (pair) => parseInt(pair, 16));
}
