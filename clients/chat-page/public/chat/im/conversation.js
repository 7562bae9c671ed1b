/**
 * What an account knows of its conversations (IM 11), as an application sees it: how far each is
 * read, what is unread of it, and how it is kept.
 *
 * Knows no connection. What a later version of the wire added is left out, and harms nothing.
 */
import { exact } from "./message.js";
/** Unread messages that are counted; so many stand for "or more" (IM 11.4). */
export const UNREAD_MAX = 1_024;
/** Bytes of a draft that servers take, unless they are told otherwise (IM 9). */
export const DRAFT_BYTES_MAX = 1_024;
/** Characters of an excerpt that is made here. */
const EXCERPT_MAX = 256;
/** How a conversation may be kept, by the numbers on the wire less one (IM 8.6). */
export const CONVERSATION_SETTINGS = ["pin", "mute", "hide", "draft"];
/** What an entry of the inbox tells; `undefined`: nothing that is known here. */
export function eventOf(fields) {
    const place = exact(fields.seq);
    const [read, peerRead] = [exact(fields.read), exact(fields.peer_read)];
    const change = fields.change && changeOf(fields.change);
    const isKnown = read > 0 || peerRead > 0 || change !== undefined;
    if (!isKnown || fields.with === "")
        return undefined;
    const told = (upto) => (upto > 0 ? upto : undefined);
    return { place, peer: fields.with, read: told(read), peerRead: told(peerRead), change };
}
function changeOf({ setting, on: isOn, draft }) {
    const name = CONVERSATION_SETTINGS[setting - 1];
    if (name === undefined)
        return undefined;
    return name === "draft" ? { setting: name, draft } : { setting: name, isOn };
}
/** Settings as the changes that a server is asked for, one at a time. */
export function changesOf(settings) {
    return CONVERSATION_SETTINGS.flatMap((name, at) => {
        const value = settings[name];
        if (value === undefined)
            return [];
        const [on, draft] = typeof value === "string" ? [false, value] : [value, ""];
        return [{ setting: at + 1, on, draft }];
    });
}
/** A part of the list, as this account sees it. */
export function pageOf(fields, account) {
    const named = fields.conversations.filter((it) => it.with !== "");
    const conversations = named.map((it) => conversationOf(it, account));
    return { conversations, upto: exact(fields.upto), hasMore: fields.more };
}
function conversationOf(fields, account) {
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
function excerptOfFields(fields, account) {
    const { id, from, kind, text, whole: isWhole } = fields;
    const isOwn = from === account;
    return { id, at: exact(fields.at_ms), from, isOwn, kind, text, isWhole, changes: [] };
}
/** The beginning of a message. */
export function excerptOf(message) {
    const { id, at, from, isOwn, kind, changes } = message;
    // Cut by characters: one of two units is not taken in halves.
    const text = Array.from(message.text.slice(0, 2 * EXCERPT_MAX)).slice(0, EXCERPT_MAX).join("");
    const isWhole = text.length === message.text.length && message.extra.length === 0;
    return { id, at, from, isOwn, kind, text, isWhole, changes };
}
/** A conversation of which nothing is known yet. */
export function unknownConversation(peer) {
    return {
        peer, place: 0, seq: 0, saidSeq: 0, last: undefined, read: 0, peerRead: 0, unread: 0,
        mentions: 0,
        isPinned: false, isMuted: false, isHidden: false, hasLeft: false, draft: "",
    };
}
