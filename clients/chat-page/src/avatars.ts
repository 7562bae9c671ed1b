/** Avatars: initials on a colour that is the same for an address each time. Knows no client. */

import { made } from "./dom.js";

/** Colours, `tone0` and so on in the style sheet. */
export const TONES = 8;

/** One or two characters that stand for a name. */
export function initialsOf(name: string): string {
  const [local = ""] = name.split("@");
  const words = local.split(/[\s._+-]+/u).filter((it) => it !== "");
  const [first = "?", second] = words.map((it) => Array.from(it)[0]!);
  const isWide = /\p{Script=Han}/u.test(first);
  return (second === undefined || isWide ? first : first + second).toUpperCase();
}

/** The colour of an address (FNV-1a). */
export function toneOf(address: string): number {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(address)) {
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return (hash >>> 0) % TONES;
}

/** The avatar of somebody, or of a group. */
export function madeAvatar(address: string, name: string): HTMLElement {
  const avatar = made("span", initialsOf(name), "avatar", `tone${toneOf(address)}`);
  avatar.setAttribute("aria-hidden", "true");
  return avatar;
}
