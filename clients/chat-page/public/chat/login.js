/**
 * The login that a browser keeps over a reload: the account and, of one with a password, a token of
 * the server (IM 3.5). The password is never kept.
 *
 * Knows no page and no client. Invariant: a login is in one storage at a time, and what is damaged
 * is read as none.
 */
/** A token that was issued now: a new one is requested after half its time. */
export function issued(token, until, now) {
    return { token, until, renewAt: now + (until - now) / 2 };
}
/** How this login is made without asking anybody: by a token, by nothing, or not at all. */
export function wayOf({ needsPassword, token }, now) {
    if (token !== undefined && now < token.until)
        return "token";
    return needsPassword ? "ask" : "open";
}
/** A login as text. */
export function printLogin(login) {
    return JSON.stringify(login);
}
/** The login that was printed; `undefined`: the text is none. */
export function parseLogin(text) {
    try {
        const found = JSON.parse(text ?? "null");
        const { account, needsPassword = true, token } = found ?? {};
        if (typeof account !== "string" || account === "")
            return undefined;
        const login = { account, needsPassword: needsPassword !== false };
        return isToken(token) ? { ...login, token } : login;
    }
    catch {
        return undefined;
    }
}
function isToken(token) {
    const { token: secret, until, renewAt } = (token ?? {});
    return typeof secret === "string" && Number.isFinite(until) && Number.isFinite(renewAt);
}
/** The login of this tab, or of this browser where the user stays logged in. */
export class LoginShelf {
    tab;
    browser;
    constructor(tab, browser) {
        this.tab = tab;
        this.browser = browser;
    }
    get login() {
        return parseLogin(this.tab.text) ?? parseLogin(this.browser.text);
    }
    /** Whether it is kept when the tab is closed. */
    get stays() {
        return this.tab.text === null && this.browser.text !== null;
    }
    keep(login, stays) {
        this.clear();
        (stays ? this.browser : this.tab).text = printLogin(login);
    }
    clear() {
        [this.tab.text, this.browser.text] = [null, null];
    }
}
