/**
 * Chatrooms (IM 18): what is asked of one, and what its members are told.
 *
 * Knows no connection, and nothing of who is in which room: whoever joined joins again after a
 * connection that was lost.
 */
import { clientFrame } from "./frames.js";
import { roleOf } from "./group.js";
import { messageOf } from "./message.js";
/** What is done to a chatroom, by its number on the wire less one (IM 18.2). */
export const CHATROOM_VERBS = [
    "create", "rename", "announce", "promote", "demote", "mute", "unmute", "kick", "ban", "unban",
    "quiet", "open", "close",
];
/** Why a device is in a chatroom no more, by its number on the wire less one (IM 18.5). */
const OUTS = ["kicked", "banned", "closed"];
/** Whether an address is a chatroom's. */
export function isChatroom(address) {
    return address.slice(address.indexOf("@") + 1).startsWith("live.");
}
/** A verb's number on the wire. */
export function chatroomVerbNumber(verb) {
    return CHATROOM_VERBS.indexOf(verb) + 1;
}
/** One wants to be in a chatroom, and to be told so many of its last messages. */
export function joinRequest(room, history) {
    const frame = (number) => clientFrame("join_chatroom", { number, room, history });
    return { answer: "chatroom_joined", frame };
}
/** One wants to be there no more. */
export function leaveRequest(room) {
    const frame = (number) => clientFrame("leave_chatroom", { number, room });
    return { answer: "done", frame };
}
/** A chatroom is to be made or changed. */
export function chatroomRequest(order) {
    const { room, text, keeps, isDurable: durable } = order;
    const [verb, accounts] = [chatroomVerbNumber(order.verb), [...order.accounts]];
    const fields = { room, verb, text, accounts, keeps, durable };
    return { answer: "done", frame: (number) => clientFrame("chatroom_order", { number, ...fields }) };
}
/** A chatroom that was joined. */
export function joinedOf(fields, account) {
    const { state, role, muted: isMuted, history } = fields;
    const messages = history.map((it) => messageOf(it, account));
    return { ...chatroomOf(state), role: roleOf(role), isMuted, messages };
}
/** What is told by news of a chatroom. */
export function newsOf({ state, out }) {
    const told = chatroomOf(state);
    const { room } = told;
    // For a reason that a later version added it is out all the same.
    return out === 0 ? { room, state: told } : { room, out: OUTS[out - 1] ?? "kicked" };
}
function chatroomOf(fields) {
    const { room = "", title = "", announcement = "", quiet = false, here = 0 } = fields ?? {};
    return { room, title, announcement, isQuiet: quiet, here };
}
