/**
 * What people say, as an application sees it.
 *
 * Places and times are numbers: a server would have to take a million messages a second for 285
 * years to leave what a number holds exactly, and what is beyond is a fault. A message's `id` uses
 * all of its 64 bits and is a `bigint`.
 */
import { message as fieldsOf, utf8, WireFault } from "./wire.js";
import { CONTENT } from "./frames.js";
import { changeOf, isGroup } from "./group.js";
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
/** A message of the wire, as this account sees it. */
export function messageOf(fields, account) {
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
function recallOf(kind, extra) {
    if (kind !== RECALL)
        return undefined;
    const place = /^(\d{1,15}) \d{1,20}$/.exec(new TextDecoder().decode(extra))?.[1];
    return place === undefined ? undefined : Number(place);
}
/** The fields of what is said. */
export function contentFields(content) {
    const { kind, text, extra, uncounted } = content;
    return { kind, text, extra, uncounted };
}
/** Bytes of a content, as the server's limits count them. */
export function contentBytes(content) {
    return { text: utf8(content.text).length, extra: content.extra.length };
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
