/** Where the page is and whom it writes to: addresses of servers and of people. */
/** Where the server's WebSocket is: at the page's own address. */
export function socketUrl(page) {
    const url = new URL("/im", page);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    return url.href;
}
/** A name as it was typed: keyboards begin it with a capital, and spaces stand around it. */
export function typedName(text) {
    return text.trim().toLowerCase();
}
/** The whole address of a name; the own domain where it has none. */
export function wholeName(name, domain) {
    return name.includes("@") ? name : `${name}@${domain}`;
}
/** What is shown of an address: the name alone where the domain is one's own. */
export function shortName(address, domain) {
    const [name, theirs] = address.split("@");
    return theirs === domain && name ? name : address;
}
/** The names in a text, parted by commas or spaces; `undefined`: one of them is none, or nobody. */
export function namesOf(text) {
    const names = typedName(text).split(/[\s,;，；、]+/u).filter((it) => it !== "");
    return names.length > 0 && names.every(isName) ? names : undefined;
}
/** Whether somebody may be written to by this name (IM 3.1). */
export function isName(text) {
    return /^[a-z0-9._+-]{1,64}(@[a-z0-9.:[\]-]{1,255})?$/.test(text);
}
