/** Presence and contacts as they are shown. Knows no page and no client. */
const RANKS = ["online", "busy", "away", "offline"];
const STANDINGS = {
    online: "online", talkative: "online", away: "away", long_away: "away", busy: "busy",
    offline: "offline",
};
/** How somebody is there on all devices together. */
export function standingOf(presences) {
    const all = presences.map(({ show }) => STANDINGS[show]);
    return RANKS.find((it) => all.includes(it)) ?? "offline";
}
/** What this account has to do with a contact; `undefined`: it knows nobody of this name. */
export function tieOf(contact) {
    if (contact === undefined)
        return "none";
    if (contact.isBlocked)
        return "blocked";
    if (contact.seen === "pending")
        return "asks";
    if (contact.sees === "pending")
        return "asked";
    return contact.sees === "subscribed" ? "friend" : "none";
}
