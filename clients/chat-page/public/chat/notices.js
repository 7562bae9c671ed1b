/**
 * Notifications of the browser: of which message, with which words, and whether the user wants any.
 *
 * Invariant: one is shown only while the page is hidden, and only if the user has turned them on;
 * with the mode `private` it contains nothing of the message.
 */
import { isMentioned, isOfNothingKnown } from "./im/index.js";
import { wordOf } from "./words.js";
/** Characters of a message in a notification. */
const BODY_MAX = 200;
/** The notification of a message; `undefined`: none. `from`: how its sender is called. */
export function noticeOf(message, known, { account, language, title, from, mode }) {
    const { isOwn, target, recall, changes, text } = message;
    const isInvited = changes.some(({ verb, members }) => (verb === "invite" || verb === "add") && members.includes(account));
    const isSaid = changes.length === 0 && target === undefined && recall === undefined
        && !isOfNothingKnown(message);
    if (mode === "off" || isOwn || !(isSaid || isInvited))
        return undefined;
    if ((known?.isMuted ?? false) && !isMentioned(message, account))
        return undefined;
    const word = isInvited ? "newInvitation" : "newMessage";
    if (mode === "private")
        return { title: wordOf(language, "title"), body: wordOf(language, word) };
    const said = isInvited ? wordOf(language, word) : Array.from(text).slice(0, BODY_MAX).join("");
    return { title, body: title === from ? said : `${from}: ${said}` };
}
/** The notifications of this browser. */
export class Notices {
    kept;
    constructor(kept) {
        this.kept = kept;
    }
    /** Whether this browser has notifications. */
    get isPossible() {
        return "Notification" in globalThis;
    }
    /** The user has forbidden them in the browser. */
    get isDenied() {
        return this.isPossible && Notification.permission === "denied";
    }
    get mode() {
        const { text } = this.kept;
        const isGranted = this.isPossible && Notification.permission === "granted";
        return isGranted && (text === "on" || text === "private") ? text : "off";
    }
    /** Sets the mode; asks the user for permission first. */
    async choose(mode) {
        if (mode !== "off" && this.isPossible)
            await Notification.requestPermission();
        this.kept.text = mode === "off" ? null : mode;
    }
    /** Shows one, in place of the one before of the same conversation. */
    show(peer, { title, body }, opened) {
        if (document.visibilityState === "visible")
            return;
        try {
            const notice = new Notification(title, { body, tag: peer, icon: "/chat/icon.svg" });
            notice.onclick = () => {
                globalThis.focus();
                notice.close();
                opened();
            };
        }
        catch {
            // Browsers on phones show them from service workers alone.
        }
    }
}
