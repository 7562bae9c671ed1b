/** What a client is made with, and what follows from it. */
import { ImError } from "./words.js";
/** Throws a RangeError for a name that the server would refuse. */
export function checkName(what, name, bytesMax) {
    const { length } = new TextEncoder().encode(name);
    if (length < 1 || length > bytesMax) {
        throw new RangeError(`${what} has 1 to ${bytesMax} bytes, not ${JSON.stringify(name)}`);
    }
}
/** The URLs of a client; throws a RangeError where there is none. */
export function urlsOf({ url }) {
    const urls = typeof url === "string" ? [url] : [...url];
    if (urls.length === 0)
        throw new RangeError("a client needs a URL");
    return urls;
}
/** The browser's. */
export const BROWSER_CLOCK = {
    now: () => performance.now(),
    setTimeout: (call, ms) => setTimeout(call, ms),
    clearTimeout: (timer) => clearTimeout(timer),
};
/**
 * The ways to log in, the best one first. A password is shown to nobody but over wss, or to this
 * machine; it is proved where the page may use WebCrypto, which is where it came by https or from
 * this machine.
 */
export function loginMethods(options) {
    const isSafe = areSafe(urlsOf(options), options);
    const isToken = options.token !== undefined || options.loginToken !== undefined;
    if (isToken && !isSafe)
        throw new ImError("insecure");
    if (options.loginToken !== undefined)
        return ["token"];
    if (options.token !== undefined)
        return ["plain"];
    if (options.password === undefined)
        return ["none"];
    const methods = [];
    if (globalThis.crypto?.subtle !== undefined)
        methods.push("scram");
    if (isSafe)
        methods.push("plain");
    if (methods.length === 0)
        throw new ImError("insecure");
    return methods;
}
/** Nobody on the way reads what is sent there. */
export function areSafe(urls, { isRelayed = false }) {
    return urls.every((url) => isSafeUrl(new URL(url), isRelayed));
}
function isSafeUrl({ protocol, hostname }, isRelayed) {
    const isNear = hostname === "localhost" || hostname.endsWith(".localhost")
        || hostname === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(hostname);
    return protocol === "wss:" || protocol === "ims:" || (isNear && !isRelayed);
}
