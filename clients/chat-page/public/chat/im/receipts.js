/**
 * Receipts (IM 17): how far others have got what an account said, and read it. Knows no connection.
 */
import { clientFrame } from "./frames.js";
import { exact } from "./message.js";
/** Readers that are asked for at once (IM 9). */
export const READERS_PAGE = 256;
/** How others are with a conversation. */
export function readersRequest(peer, ask) {
    const fields = { with: peer, ...ask, seq: BigInt(ask.seq) };
    return { answer: "readers", frame: (number) => clientFrame("readers", { number, ...fields }) };
}
/** Whether what one reads is shared; `undefined`: it is only asked. */
export function privacyRequest(sharesReads) {
    const reads = sharesReads === undefined ? 0 : sharesReads ? 1 : 2;
    return { answer: "privacy", frame: (number) => clientFrame("privacy", { number, reads, adding: 0 }) };
}
/** What the server has told of readers. */
export function readersOf({ with: peer, total, read, readers }) {
    const of = readers.map((it) => ({ address: it.account, read: exact(it.read), delivered: exact(it.delivered) }));
    return { peer, total, read, readers: of };
}
/** What it has told of a delivery. */
export function deliveredOf({ with: peer, upto }) {
    return { peer, upto: exact(upto) };
}
