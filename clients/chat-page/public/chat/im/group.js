/**
 * Groups (IM 10): what is done to them, what happened in one, and who is in it.
 *
 * Knows no frames and no connection.
 */
/** What is done to a group, by its number on the wire less one (IM 8.4). */
export const GROUP_VERBS = [
    "create", "add", "remove", "leave", "hand-over", "promote", "demote", "mute", "unmute", "close",
    "open", "rename", "dissolve", "join", "ban", "unban", "describe", "lock", "unlock",
    "reveal", "hide", "persist", "unpersist", "invite", "add-owner", "remove-owner",
];
/** What a member may do, by its number on the wire less one (IM 8.5). */
export const GROUP_ROLES = ["member", "admin", "owner"];
/** Members that are asked for at once (IM 9). */
export const MEMBERS_PAGE = 256;
/** Kind of a message that tells what happened in its group (IM 8.3). */
export const GROUP_KIND = 3;
/** Whether an address is a group's, or a channel's (IM 10.5). */
export function isGroup(address) {
    const domain = address.slice(address.indexOf("@") + 1);
    return domain.startsWith("conference.") || domain.startsWith("channel.");
}
/** A verb's number on the wire. */
export function verbNumber(verb) {
    return GROUP_VERBS.indexOf(verb) + 1;
}
/** A role by its number; one that a later version added may at least what every member may. */
export function roleOf(number) {
    return GROUP_ROLES[number - 1] ?? "member";
}
/**
 * The changes that a message of this content tells of, in their order. A line that is not known
 * here is passed over.
 */
export function changesOf(kind, text, extra) {
    if (kind !== GROUP_KIND)
        return [];
    const lines = new TextDecoder().decode(extra).split("\n");
    return lines.flatMap((line) => changeOf(line, text) ?? []);
}
/** The change that a line tells of. `text`: that of the message, for a line without its own. */
function changeOf(line, text) {
    const [said = "", digits, ...more] = line.split(" =");
    const [word, ...named] = said.split(" ");
    const verb = GROUP_VERBS.find((it) => it === word);
    const title = digits === undefined ? text : textOf(digits);
    const isAccount = (it) => /^[^#@]+@[^#@]+#\d+$/.test(it);
    const isWrong = more.length > 0 || !named.every(isAccount);
    if (verb === undefined || title === undefined || isWrong)
        return undefined;
    return { verb, title, members: named.map((it) => it.slice(0, it.indexOf("#"))) };
}
/** The text whose UTF-8 these hexadecimal digits are; `undefined`: they are no text's. */
function textOf(digits) {
    if (!/^([\da-f]{2})*$/i.test(digits))
        return undefined;
    try {
        return decodeURIComponent(digits.replace(/../g, "%$&"));
    }
    catch {
        return undefined;
    }
}
/** Whether it tells of something that happened to a group and is not known here: not shown. */
export function isOfNothingKnown(said) {
    return said.kind === GROUP_KIND && said.changes.length === 0;
}
/** Whether an account is no member any more after these changes. `isOwn`: it made them itself. */
export function endsMembership(changes, isOwn, account) {
    return changes.reduce((isOut, { verb, members }) => {
        if (verb === "dissolve" || (verb === "leave" && isOwn))
            return true;
        if (!members.includes(account))
            return isOut;
        // Who is invited is no member until it joins.
        if (verb === "remove" || verb === "ban" || verb === "invite")
            return true;
        return isOut && verb !== "add" && verb !== "join";
    }, false);
}
/** A list of members as its pages come. */
export class MembersList {
    #version = 0n;
    #members = [];
    /** How often it began anew. */
    #anew = 0;
    /** What is to be asked for next. */
    get next() {
        return { version: this.#version, from: this.#members.length };
    }
    /** It began anew so often that it is given up: the group changes faster than it is read. */
    get isHopeless() {
        return this.#anew > 16;
    }
    /** The whole list, if this page was the last of it. */
    page(page) {
        if (page.version !== this.#version) {
            this.#version = page.version;
            this.#members = [];
            this.#anew += 1;
        }
        const isLast = page.members.length === 0;
        this.#members.push(...page.members);
        if (!isLast && this.#members.length < page.total)
            return undefined;
        const { group, title, description, isClosed, isUnlocked, isPublic, isTemporary } = page;
        const about = { group, title, description, isClosed, isUnlocked, isPublic, isTemporary };
        return { ...about, members: this.#members };
    }
}
