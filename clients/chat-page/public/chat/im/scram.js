/**
 * SCRAM-SHA-256, the client's side (RFC 5802 5, RFC 7677 3), by WebCrypto: it proves that it knows
 * the password without showing it, and that the server knows it too.
 *
 * ```text
 *  client: n,,n=user,r=nonce          server: r=nonce+its own,s=salt,i=iterations
 *  client: c=biws,r=...,p=proof       server: v=signature
 * ```
 * No channel is bound: a browser shows none. Names are taken as they are, without SASLprep.
 */
import { utf8 } from "./wire.js";
/** The method's name in Login. */
export const SCRAM = "SCRAM-SHA-256";
/** Most iterations that are computed for a server: a hostile one shall not keep us busy. */
const ITERATIONS_MAX = 1_000_000;
const HMAC = { name: "HMAC", hash: "SHA-256" };
/** One proof under way. */
export class Proof {
    crypto;
    password;
    nonce;
    #first;
    /** @param nonce drawn anew for each: printable, without a comma. */
    constructor(crypto, user, password, nonce) {
        this.crypto = crypto;
        this.password = password;
        this.nonce = nonce;
        const name = user.replaceAll("=", "=3D").replaceAll(",", "=2C");
        this.#first = `n=${name},r=${nonce}`;
    }
    /** What stands in Login. */
    get first() {
        return utf8(`n,,${this.#first}`);
    }
    /**
     * The answer to the server's challenge, and what the server must say in the end; `undefined`: it
     * is no challenge to this proof.
     */
    async answer(challenge) {
        const text = new TextDecoder().decode(challenge);
        const [nonce, salt, count] = [field(text, "r="), unbase64(field(text, "s=")), field(text, "i=")];
        const iterations = /^[0-9]{1,7}$/.test(count) ? Number(count) : 0;
        const isOurs = nonce.length > this.nonce.length && nonce.startsWith(this.nonce);
        if (!isOurs || salt === undefined || iterations < 1 || iterations > ITERATIONS_MAX) {
            return undefined;
        }
        const salted = await this.#salted(salt, iterations);
        const key = await this.#mac(salted, utf8("Client Key"));
        const stored = new Uint8Array(await this.crypto.digest("SHA-256", key));
        const last = `c=biws,r=${nonce}`;
        const said = utf8(`${this.#first},${text},${last}`);
        const signature = await this.#mac(stored, said);
        const proof = key.map((byte, at) => byte ^ signature[at]);
        const server = await this.#mac(await this.#mac(salted, utf8("Server Key")), said);
        return { data: utf8(`${last},p=${base64(proof)}`), expected: `v=${base64(server)}` };
    }
    async #salted(salt, iterations) {
        const password = utf8(this.password);
        const key = await this.crypto.importKey("raw", password, "PBKDF2", false, ["deriveBits"]);
        const how = { name: "PBKDF2", hash: "SHA-256", salt: salt, iterations };
        return new Uint8Array(await this.crypto.deriveBits(how, key, 256));
    }
    async #mac(key, said) {
        const made = await this.crypto.importKey("raw", key, HMAC, false, ["sign"]);
        return new Uint8Array(await this.crypto.sign("HMAC", made, said));
    }
}
function field(text, name) {
    return text.split(",").find((it) => it.startsWith(name))?.slice(name.length) ?? "";
}
/** Bytes as base64. */
export function base64(bytes) {
    return btoa(String.fromCharCode(...bytes));
}
function unbase64(text) {
    try {
        return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    }
    catch {
        return undefined;
    }
}
