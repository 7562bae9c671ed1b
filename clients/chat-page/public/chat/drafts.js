/**
 * What somebody began to write, and when it is kept: a moment after the last word, so that the
 * other devices have it and the server has little to do.
 *
 * Knows no page, no clock and no client. Invariant: of a conversation one draft is on its way at a
 * time, and the last one that was written is kept in the end; at most {@link DRAFTS_MAX} wait.
 */
import { DRAFT_BYTES_MAX } from "./im/index.js";
/** Conversations whose drafts wait; with more the one that was written first is not kept. */
export const DRAFTS_MAX = 50;
/** After the last word, milliseconds. */
export const PAUSE_MS = 1_500;
/** The longest that somebody writes on and it is not kept, milliseconds. */
export const UNKEPT_MS = 10_000;
/** After a draft that could not be kept now, milliseconds. */
const AGAIN_MS = 3_000;
/** A text as a draft: blanks alone are none, and it ends where the server would not take more. */
export function draftOf(text) {
    if (text.trim() === "")
        return "";
    let bytes = 0;
    let draft = "";
    for (const character of text) {
        bytes += new TextEncoder().encode(character).length;
        if (bytes > DRAFT_BYTES_MAX)
            break;
        draft += character;
    }
    return draft;
}
/** The drafts. */
export class Drafts {
    #written = new Map();
    /** What is on its way. */
    #kept = new Map();
    get wakeAt() {
        const free = [...this.#written].filter(([peer]) => !this.#kept.has(peer));
        return Math.min(Infinity, ...free.map(([, { dueAt }]) => dueAt));
    }
    /** It is written, or on its way, and not kept. */
    isUnderWay(peer) {
        return this.#written.has(peer) || this.#kept.has(peer);
    }
    /** What was written last and is not kept yet. */
    of(peer) {
        return this.#written.get(peer)?.draft ?? this.#kept.get(peer);
    }
    /** This stands in the field; `known`: the draft that the server has. */
    writes(now, peer, text, known) {
        const draft = draftOf(text);
        const before = this.#written.get(peer);
        this.#written.delete(peer);
        if (draft === (this.#kept.get(peer) ?? known))
            return;
        const since = before?.since ?? now;
        const dueAt = Math.min(now + PAUSE_MS, since + UNKEPT_MS);
        this.#written.set(peer, { draft, since, dueAt });
        const [first] = this.#written.keys();
        if (this.#written.size > DRAFTS_MAX)
            this.#written.delete(first);
    }
    /** Nobody goes on writing: what is written is to be kept now. */
    leaves(now) {
        for (const [peer, it] of this.#written) {
            this.#written.set(peer, { ...it, dueAt: Math.min(it.dueAt, now) });
        }
    }
    /** What is to be kept now. */
    due(now) {
        const due = [];
        for (const [peer, { draft, dueAt }] of this.#written) {
            if (dueAt > now || this.#kept.has(peer))
                continue;
            this.#written.delete(peer);
            this.#kept.set(peer, draft);
            due.push({ peer, draft });
        }
        return due;
    }
    /** It is kept, or will not be. */
    done(peer) {
        this.#kept.delete(peer);
    }
    /** It could not be kept now. */
    failed(now, peer) {
        const draft = this.#kept.get(peer);
        this.#kept.delete(peer);
        if (draft === undefined || this.#written.has(peer))
            return;
        this.#written.set(peer, { draft, since: now, dueAt: now + AGAIN_MS });
    }
}
