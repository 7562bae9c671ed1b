/**
 * Files and pictures: the note that a message carries of one (IM 14.3), and how one is put where
 * the server says (IM 14.2).
 *
 * What a note says comes from whoever sent it: nothing of it is to be taken for true.
 */
import { utf8 } from "./wire.js";
import { ImError } from "./words.js";
/** The kind of a message that tells of a file (IM 8.3). */
export const FILE = 20;
/** Longest address of a file, bytes. */
const URL_BYTES_MAX = 4_096;
/** Types of pictures that a page may show: none of them runs anything. */
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);
/** The note of a message; `undefined`: it is about no file. */
export function fileOf(message) {
    if (message.kind !== FILE)
        return undefined;
    const [lines = ""] = new TextDecoder().decode(message.extra).split("\n\n", 1);
    const said = new Map();
    for (const line of lines.split("\n")) {
        const at = line.indexOf(": ");
        if (at > 0)
            said.set(line.slice(0, at), line.slice(at + 2));
    }
    const url = said.get("url") ?? "";
    if (!isFileUrl(url))
        return undefined;
    const [, width = "0", height = "0"] = /^(\d{1,6})x(\d{1,6})$/.exec(said.get("size") ?? "") ?? [];
    const bytes = said.get("bytes") ?? "";
    return {
        url,
        name: said.get("name") ?? "",
        type: said.get("type") ?? "",
        bytes: /^\d{1,15}$/.test(bytes) ? Number(bytes) : 0,
        width: Number(width),
        height: Number(height),
        blurhash: said.get("blurhash") ?? "",
    };
}
/** A note as the `extra` of a message. */
export function fileExtra(note) {
    const plain = (text) => text.replace(/[\0-\x1f\x7f]/g, "");
    const lines = [`url: ${note.url}`];
    if (note.name !== "")
        lines.push(`name: ${plain(note.name)}`);
    if (note.type !== "")
        lines.push(`type: ${plain(note.type)}`);
    if (note.bytes > 0)
        lines.push(`bytes: ${note.bytes}`);
    if (note.width > 0 && note.height > 0)
        lines.push(`size: ${note.width}x${note.height}`);
    if (note.blurhash !== "")
        lines.push(`blurhash: ${plain(note.blurhash)}`);
    return utf8(`${lines.join("\n")}\n`);
}
/** Whether a page may show a file of this type as a picture. */
export function isPicture(type) {
    return PICTURES.has(type.toLowerCase());
}
/** Whether a text may be the address of a file. */
function isFileUrl(text) {
    return text.length <= URL_BYTES_MAX && /^https?:\/\/[!#-;=?-~]+$/.test(text);
}
/** Puts a file where the server says. Rejects with `upload_failed`, or `aborted`. */
export function putFile(slot, file, options) {
    const { onProgress, signal, request } = options;
    return new Promise((resolve, reject) => {
        if (signal?.aborted)
            return reject(new ImError("aborted"));
        const abort = () => request.abort();
        const over = (error) => {
            signal?.removeEventListener("abort", abort);
            if (error === undefined)
                resolve();
            else
                reject(error);
        };
        signal?.addEventListener("abort", abort);
        const { size } = file;
        request.upload.onprogress = ({ loaded }) => onProgress?.(Math.min(loaded, size), size);
        request.onload = () => {
            const isDone = request.status >= 200 && request.status < 300;
            over(isDone ? undefined : new ImError("upload_failed", `status ${request.status}`));
        };
        request.onerror = () => over(new ImError("upload_failed", "the storage is not reached"));
        request.onabort = () => over(new ImError("aborted"));
        request.open("PUT", slot.putUrl);
        for (const [name, value] of slot.headers)
            request.setRequestHeader(name, value);
        request.send(file);
    });
}
