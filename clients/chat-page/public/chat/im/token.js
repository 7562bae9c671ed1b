/**
 * Tokens by which a device logs in without its password (IM 3.5): it proves that it has one by an
 * HMAC, and the server proves that it has it too (draft-schmaus-kitten-sasl-ht).
 */
import { clientFrame } from "./frames.js";
import { base64 } from "./scram.js";
import { utf8 } from "./wire.js";
/** The method's name in Login. */
export const HASHED_TOKEN = "HT-SHA-256-NONE";
const HMAC = { name: "HMAC", hash: "SHA-256" };
/** Asks for a token, or has the device's tokens revoked. */
export function tokenRequest(revoke) {
    const answer = revoke ? "done" : "token";
    return { answer, frame: (number) => clientFrame("token", { number, revoke }) };
}
/** The data of a Login by a token, and what LoggedIn must contain then, in base64. */
export async function proveToken(crypto, account, token) {
    const key = await crypto.importKey("raw", utf8(token), HMAC, false, ["sign"]);
    const mac = async (label) => new Uint8Array(await crypto.sign("HMAC", key, utf8(label)));
    const [initiator, responder] = [await mac("Initiator"), await mac("Responder")];
    const name = utf8(account);
    const data = new Uint8Array(name.length + 1 + initiator.length);
    data.set(name);
    data.set(initiator, name.length + 1);
    return { data, expected: base64(responder) };
}
