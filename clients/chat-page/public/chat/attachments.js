/**
 * Files that are about to be sent: chosen, pasted or dropped, described, uploaded with progress.
 *
 * Each belongs to the conversation that was looked at when it came; it is sent there, whatever is
 * looked at meanwhile. Leaving the conversation gives up what is not under way.
 */
import { isPicture } from "./im/index.js";
import { by, made } from "./dom.js";
import { sizeOf } from "./files.js";
import { sentenceOf, wordOf } from "./words.js";
/** What these words of the server say of a file. */
const OF_FILES = {
    invalid: "file_invalid",
    too_large: "file_too_large",
};
/** Files that may stand there at once. More are passed over. */
const FILES_MAX = 10;
/** The files of a room. */
export class Attachments {
    client;
    language;
    #peer;
    constructor(client, language) {
        this.client = client;
        this.language = language;
        by("attach").onclick = () => by("file").click();
        by("file").onchange = () => {
            const field = by("file");
            this.#takes([...(field.files ?? [])]);
            field.value = "";
        };
        by("text").onpaste = (event) => this.#comes(event, event.clipboardData);
        const talk = by("conversation");
        talk.ondragover = (event) => {
            if (event.dataTransfer?.types.includes("Files"))
                event.preventDefault();
        };
        talk.ondrop = (event) => this.#comes(event, event.dataTransfer);
    }
    /** This conversation is looked at; `undefined`: none is. */
    open(peer) {
        if (peer !== this.#peer)
            by("files").replaceChildren();
        this.#peer = peer;
        this.show();
    }
    /** Files are offered where the server takes some. */
    show() {
        by("attach").hidden = this.client.fileBytesMax === 0;
    }
    speak(language) {
        this.language = language;
    }
    close() {
        this.open(undefined);
        by("attach").onclick = by("file").onchange = by("text").onpaste = null;
        by("conversation").ondragover = by("conversation").ondrop = null;
    }
    #comes(event, given) {
        const files = [...(given?.files ?? [])];
        if (files.length === 0)
            return;
        event.preventDefault();
        this.#takes(files);
    }
    #takes(files) {
        const peer = this.#peer;
        if (peer === undefined || this.client.fileBytesMax === 0)
            return;
        const room = FILES_MAX - by("files").childElementCount;
        const taken = files.slice(0, Math.max(room, 0)).map((file) => this.#offer(peer, file));
        taken[0]?.querySelector("input")?.focus();
    }
    /** A file with a field for what it is, before it is sent. */
    #offer(peer, file) {
        const word = (it) => wordOf(this.language, it);
        const item = made("li");
        const form = document.createElement("form");
        const about = document.createElement("input");
        about.placeholder = isPicture(file.type) ? word("describe") : word("caption");
        about.setAttribute("aria-label", `${about.placeholder}: ${file.name}`);
        about.maxLength = 1_000;
        about.autocomplete = "off";
        const away = made("button", word("remove"), "plain");
        away.type = "button";
        const gone = new AbortController();
        away.onclick = () => {
            gone.abort();
            item.remove();
            by("text").focus();
        };
        const fault = made("p", "", "fault");
        fault.setAttribute("role", "alert");
        form.append(made("span", `${file.name} (${sizeOf(file.size)})`), about, made("button", word("send")), away);
        form.onsubmit = (event) => {
            event.preventDefault();
            fault.textContent = "";
            const text = about.value.trim();
            void this.#send({ peer, file, item, form, fault, text, signal: gone.signal });
        };
        item.append(form, fault);
        by("files").append(item);
        return item;
    }
    async #send(it) {
        const { peer, file, item, form, fault, text, signal } = it;
        const fields = [...form.querySelectorAll("input, button:not(.plain)")];
        fields.forEach((field) => (field.disabled = true));
        const progress = document.createElement("progress");
        progress.max = file.size;
        progress.value = 0;
        progress.setAttribute("aria-label", `${wordOf(this.language, "uploading")}: ${file.name}`);
        form.append(progress);
        try {
            const size = await sizeOfPicture(file);
            const onProgress = (sent) => (progress.value = sent);
            const note = await this.client.upload(file, { onProgress, signal });
            item.remove();
            by("text").focus();
            await this.client.sendFile(peer, { ...note, ...size }, text || file.name);
        }
        catch (error) {
            progress.remove();
            fields.forEach((field) => (field.disabled = false));
            const { code } = error;
            const said = sentenceOf(this.language, OF_FILES[code] ?? code);
            if (item.isConnected)
                fault.textContent = said;
            else if (code !== "aborted" && code !== "closed")
                by("say-fault").textContent = said;
        }
    }
}
/** Width and height of a picture; nothing of what is none, or cannot be read. */
async function sizeOfPicture(file) {
    if (!isPicture(file.type))
        return {};
    try {
        const picture = await createImageBitmap(file);
        const { width, height } = picture;
        picture.close();
        return { width, height };
    }
    catch {
        return {};
    }
}
