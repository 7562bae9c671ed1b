/** What is asked of conversations (IM 11), as frames. Knows no connection. */
import { clientFrame } from "./frames.js";
/** A part of the list, or one conversation. */
export function listRequest({ peer, before, count }) {
    const fields = { with: peer, before: BigInt(before), count };
    const frame = (number) => clientFrame("conversations", { number, ...fields });
    return { answer: "conversations", frame };
}
/** The account has read a conversation up to a place. */
export function readRequest(peer, upto) {
    const fields = { with: peer, upto: BigInt(upto) };
    const frame = (number) => clientFrame("mark_read", { number, ...fields });
    return { answer: "marked_read", frame };
}
/** A conversation is to be kept otherwise. */
export function setRequest(peer, change) {
    const fields = { with: peer, change };
    return { answer: "set", frame: (number) => clientFrame("set", { number, ...fields }) };
}
/** What the account has said and heard is searched for a text. */
export function searchRequest(text, { peer = "", from = "", before, count }) {
    const range = { since_ms: 0n, until_ms: 0n, before: BigInt(before), count };
    const fields = { text, with: peer, from, ...range };
    return { answer: "found", frame: (number) => clientFrame("search", { number, ...fields }) };
}
/** An own message is to be called back. */
export function recallRequest(peer, seq) {
    const fields = { with: peer, seq: BigInt(seq) };
    return { answer: "sent", frame: (number) => clientFrame("recall", { number, ...fields }) };
}
