/**
 * Receipts (IM 17): how far others have got what an account said, and read it. Knows no connection.
 */
import { clientFrame } from "./frames.js";
import { exact } from "./message.js";
/** Readers that are asked for at once (IM 9). */
export const READERS_PAGE = 256;
/** How somebody is with a conversation, as a frame. */
export function readersFrame(number, peer, ask) {
    const { seq = 0, from = 0, count = READERS_PAGE } = ask;
    return clientFrame("readers", { number, with: peer, seq: BigInt(seq), from, count });
}
/** Whether what one reads is shared, as a frame; `undefined`: it is only asked. */
export function privacyFrame(number, sharesReads) {
    const reads = sharesReads === undefined ? 0 : sharesReads ? 1 : 2;
    return clientFrame("privacy", { number, reads });
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
