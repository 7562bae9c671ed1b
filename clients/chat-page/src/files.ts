/**
 * A file or picture of a message, as an element.
 *
 * What its note says comes from whoever sent it: only pictures that run nothing are shown, and all
 * else is a link. A picture that cannot be had is a link, too.
 */

import { isPicture } from "./im/index.js";
import type { FileNote } from "./im/index.js";
import { made } from "./dom.js";

/** Largest side of a picture that is believed, points. */
const SIDE_MAX = 16_384;

/** A file, with the words of its message. `shown`: it has its size on the page now. */
export function madeFile(note: FileNote, text: string, shown: () => void): HTMLElement {
  const element = made("div", "", "text");
  if (!isPicture(note.type)) {
    element.append(link(note, text));
    return element;
  }
  const picture = document.createElement("img");
  // What is said with a picture is what it is to whoever does not see it.
  picture.alt = text;
  picture.decoding = "async";
  picture.referrerPolicy = "no-referrer";
  const { width, height } = note;
  if (width > 0 && height > 0 && Math.max(width, height) <= SIDE_MAX) {
    [picture.width, picture.height] = [width, height];
  }
  const frame = anchor(note);
  frame.append(picture);
  picture.onload = shown;
  picture.onerror = () => {
    frame.replaceWith(link(note, text));
    shown();
  };
  picture.src = note.url;
  element.append(frame);
  if (text !== note.name && text !== "") element.append(made("div", text));
  return element;
}

function link(note: FileNote, text: string): HTMLElement {
  const element = anchor(note);
  element.textContent = text === "" ? note.url : text;
  if (note.bytes > 0) element.append(made("small", ` ${sizeOf(note.bytes)}`));
  return element;
}

/** Opens apart from the page, which tells nothing of itself. */
function anchor(note: FileNote): HTMLAnchorElement {
  const element = document.createElement("a");
  element.href = note.url;
  element.target = "_blank";
  element.rel = "noopener noreferrer";
  return element;
}

/** Bytes as people read them. */
export function sizeOf(bytes: number): string {
  const units = ["B", "KB", "MB", "GB", "TB"];
  const at = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), units.length - 1);
  const value = bytes / 1_000 ** at;
  return `${value >= 100 || at === 0 ? Math.round(value) : value.toFixed(1)} ${units[at]}`;
}
