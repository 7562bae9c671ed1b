/**
 * Contacts and presence (IM 12): whom an account knows, who of two sees whom, and how somebody is
 * there.
 *
 * Knows no connection.
 */
/** What is wanted of a contact, by its number on the wire less one (IM 8.7). */
export const CONTACT_VERBS = [
    "set", "remove", "befriend", "request", "cancel", "accept", "refuse", "block", "unblock",
];
/** Whether one of two sees the other, by its number on the wire (IM 8.8). */
export const HALVES = ["none", "pending", "subscribed"];
/** How somebody is there, by its number on the wire less one (IM 8.9). */
export const SHOWS = ["online", "talkative", "away", "long_away", "busy", "offline"];
/** Contacts that are asked for at once (IM 9). */
export const CONTACTS_PAGE = 256;
/** Bytes of what one is there with in words (IM 9). */
export const STATUS_BYTES_MAX = 512;
/** Whether two see each other. */
export function areFriends({ sees, seen }) {
    return sees === "subscribed" && seen === "subscribed";
}
/** A verb's number on the wire. */
export function contactVerbNumber(verb) {
    return CONTACT_VERBS.indexOf(verb) + 1;
}
/** A show's number on the wire. */
export function showNumber(show) {
    return SHOWS.indexOf(show) + 1;
}
/** A contact as it travels; `undefined`: nothing is left of it. */
export function contactOf(fields) {
    const { address, listed, name, groups, approved, greeting, blocked } = fields;
    const [sees, seen] = [halfOf(fields.sees), halfOf(fields.seen)];
    const isTied = sees !== "none" || seen !== "none" || approved;
    if (!listed && !blocked && !isTied)
        return undefined;
    return {
        address, isListed: listed, name, groups, sees, seen, isApproved: approved, greeting,
        isBlocked: blocked,
    };
}
/** What a contact said; `undefined`: nothing that is known here. */
export function saidOf(number) {
    const verb = CONTACT_VERBS[number - 1];
    const isSaid = verb === "request" || verb === "cancel" || verb === "accept" || verb === "refuse";
    return isSaid ? verb : undefined;
}
/** How somebody is there. Who is there in a way that a later version added is there. */
export function presenceOf({ from, device, show: number, status }) {
    const show = device === "" ? "offline" : (SHOWS[number - 1] ?? "online");
    return { address: from, device, show, status };
}
function halfOf(number) {
    return HALVES[number] ?? "none";
}
