/**
 * Links in texts: which parts of a text are web addresses.
 *
 * Knows no page. Invariant: the parts together are the text; a link is http or https, and names no
 * user, which could pass for a host.
 */
const LINK = /(?<![\p{L}\p{N}])https?:\/\/[^\s<>"`，。！？；：、（）【】《》「」“”]+/giu;
/** What ends a sentence rather than an address. */
const TRAILING = /[.,;:!?'*_~]+$/u;
const PAIRS = ["()", "[]", "{}"];
/** The parts of a text, in order. */
export function partsOf(text) {
    const parts = [];
    let end = 0;
    for (const { 0: found, index } of text.matchAll(LINK)) {
        const link = trimmed(found);
        const url = urlOf(link);
        if (url === undefined)
            continue;
        if (index > end)
            parts.push({ text: text.slice(end, index) });
        parts.push({ text: link, url });
        end = index + link.length;
    }
    if (end < text.length)
        parts.push({ text: text.slice(end) });
    return parts;
}
/** A link without the punctuation of the sentence around it. */
function trimmed(found) {
    let link = found;
    for (;;) {
        const before = link;
        link = link.replace(TRAILING, "");
        const count = (character) => link.split(character).length;
        for (const [opens, closes] of PAIRS) {
            if (link.endsWith(closes) && count(closes) > count(opens))
                link = link.slice(0, -1);
        }
        if (link === before)
            return link;
    }
}
function urlOf(link) {
    try {
        const { protocol, username, password, href } = new URL(link);
        const isWeb = protocol === "https:" || protocol === "http:";
        return isWeb && username === "" && password === "" ? href : undefined;
    }
    catch {
        return undefined;
    }
}
