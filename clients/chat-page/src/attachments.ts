/**
 * Files to send: chosen, pasted or dropped, shown with a preview, and uploaded by the one button
 * that sends.
 *
 * Each belongs to the conversation that was open when it came; it is sent there, whatever is opened
 * meanwhile. Leaving the conversation discards files whose upload has not begun.
 */

import { isPicture } from "./im/index.js";
import type { Client, FileNote, ImError } from "./im/index.js";
import { by, made } from "./dom.js";
import { sizeOf } from "./files.js";
import { sentenceOf, wordOf } from "./words.js";
import type { Language } from "./words.js";

/** Codes of the server that have another sentence about files. */
const OF_FILES: Readonly<Record<string, string>> = {
  invalid: "file_invalid",
  too_large: "file_too_large",
};

/** Files that wait at once. More are ignored. */
const FILES_MAX = 10;
/** Longer side of a preview, points. */
const PREVIEW_PX = 240;

/** The files of a room. */
export class Attachments {
  #peer: string | undefined;
  readonly #attached = new Map<HTMLElement, Attached>();

  /** @param written the text of the field has changed. */
  constructor(
    private readonly client: Client,
    private language: Language,
    private readonly written: () => void,
  ) {
    by("attach").onclick = () => by<HTMLInputElement>("file").click();
    by<HTMLInputElement>("file").onchange = () => {
      const field = by<HTMLInputElement>("file");
      this.#takes([...(field.files ?? [])]);
      field.value = "";
    };
    by("text").onpaste = (event) => this.#comes(event, event.clipboardData);
    const talk = by("conversation");
    talk.ondragover = (event) => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
    };
    talk.ondrop = (event) => this.#comes(event, event.dataTransfer);
  }

  /** This conversation is open; `undefined`: none is. */
  open(peer: string | undefined): void {
    if (peer !== this.#peer) {
      by("files").replaceChildren();
      this.#attached.clear();
    }
    this.#peer = peer;
    this.#hint();
    this.show();
  }

  /** Files are offered where the server takes some. */
  show(): void {
    by("attach").hidden = this.client.fileBytesMax === 0;
  }

  speak(language: Language): void {
    this.language = language;
    this.#hint();
  }

  close(): void {
    this.open(undefined);
    by("attach").onclick = by<HTMLInputElement>("file").onchange = by("text").onpaste = null;
    by("conversation").ondragover = by("conversation").ondrop = null;
  }

  #comes(event: Event, given: DataTransfer | null): void {
    const files = [...(given?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    this.#takes(files);
  }

  #takes(files: readonly File[]): void {
    const peer = this.#peer;
    const isClosed = by("say").hidden;
    if (peer === undefined || isClosed || this.client.fileBytesMax === 0) return;
    const room = FILES_MAX - by("files").childElementCount;
    files.slice(0, Math.max(room, 0)).forEach((file) => this.#offer(peer, file));
    this.#hint();
    by("text").focus();
  }

  /** Whether files of the open conversation wait for the button. */
  get isWaiting(): boolean {
    return this.#waiting.length > 0;
  }

  get #waiting(): Attached[] {
    return [...this.#attached.values()].filter((it) => !it.isUnderWay);
  }

  /** Sends all that wait; the text is the caption of the first. */
  send(text: string): void {
    void this.#sendAll(this.#waiting, text.trim());
  }

  /** One after the other, in order. */
  async #sendAll(all: readonly Attached[], text: string): Promise<void> {
    for (const it of all) it.isUnderWay = true;
    for (const [at, it] of all.entries()) await this.#send(it, at === 0 ? text : "");
  }

  /** A file with its preview, before it is sent. */
  #offer(peer: string, file: File): void {
    const item = made("li");
    const gone = new AbortController();
    const away = made("button", "×", "plain", "remove") as HTMLButtonElement;
    away.type = "button";
    away.setAttribute("aria-label", `${wordOf(this.language, "remove")}: ${file.name}`);
    away.onclick = () => {
      gone.abort();
      this.#removes(item);
      by("text").focus();
    };
    const fault = made("p", "", "fault");
    fault.setAttribute("role", "alert");
    const about = made("span", file.name, "name");
    about.append(made("small", sizeOf(file.size)));
    item.append(madePreview(file), about, away, fault);
    this.#attached.set(item, { peer, file, item, fault, signal: gone.signal, isUnderWay: false });
    by("files").append(item);
  }

  #removes(item: HTMLElement): void {
    item.remove();
    this.#attached.delete(item);
    this.#hint();
  }

  /** With a file, the text is a caption. */
  #hint(): void {
    const word = this.isWaiting ? "caption" : "say";
    by<HTMLTextAreaElement>("text").placeholder = wordOf(this.language, word);
  }

  async #send(it: Attached, text: string): Promise<void> {
    const { peer, file, item, fault, signal } = it;
    if (signal.aborted) return;
    fault.textContent = "";
    const progress = document.createElement("progress");
    progress.max = file.size;
    progress.value = 0;
    progress.setAttribute("aria-label", `${wordOf(this.language, "uploading")}: ${file.name}`);
    item.append(progress);
    try {
      const size = await sizeOfPicture(file);
      const onProgress = (sent: number) => (progress.value = sent);
      const note = await this.client.upload(file, { onProgress, signal });
      this.#removes(item);
      await this.client.sendFile(peer, { ...note, ...size }, text || file.name);
    } catch (error) {
      progress.remove();
      it.isUnderWay = false;
      this.#fails(it, (error as ImError).code, text);
    }
  }

  /** The file stays, to be sent again or removed, and its caption goes back into the field. */
  #fails({ peer, item, fault }: Attached, code: string, text: string): void {
    const said = sentenceOf(this.language, OF_FILES[code] ?? code);
    if (item.isConnected) fault.textContent = said;
    else if (code !== "aborted" && code !== "closed") by("say-fault").textContent = said;
    this.#hint();
    const field = by<HTMLTextAreaElement>("text");
    if (!item.isConnected || field.value !== "" || this.#peer !== peer) return;
    field.value = text;
    this.written();
  }
}

interface Attached {
  readonly peer: string;
  readonly file: File;
  readonly item: HTMLElement;
  readonly fault: HTMLElement;
  readonly signal: AbortSignal;
  isUnderWay: boolean;
}

/** A small picture of a picture, drawn here; of anything else, the end of its name. */
function madePreview(file: File): HTMLElement {
  const ending = /\.([\p{L}\p{N}]{1,4})$/u.exec(file.name)?.[1] ?? "…";
  const frame = made("span", isPicture(file.type) ? "" : ending.toUpperCase(), "preview");
  frame.setAttribute("aria-hidden", "true");
  if (isPicture(file.type)) void drawPreview(file, frame);
  return frame;
}

async function drawPreview(file: File, frame: HTMLElement): Promise<void> {
  try {
    const picture = await createImageBitmap(file);
    const scale = Math.min(1, PREVIEW_PX / Math.max(picture.width, picture.height));
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.round(picture.width * scale));
    canvas.height = Math.max(1, Math.round(picture.height * scale));
    canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
    picture.close();
    frame.append(canvas);
  } catch {
    // The browser cannot read it: the receiver's may.
  }
}

/** Width and height of a picture; nothing of what is none, or cannot be read. */
async function sizeOfPicture(file: File): Promise<Partial<FileNote>> {
  if (!isPicture(file.type)) return {};
  try {
    const picture = await createImageBitmap(file);
    const { width, height } = picture;
    picture.close();
    return { width, height };
  } catch {
    return {};
  }
}
