/** How the conversation that is looked at is kept: pinned, muted, hidden. */
import { by } from "./dom.js";
import { isKnown } from "./listed.js";
import { closeMenus } from "./menu.js";
import { sentenceOf, wordOf } from "./words.js";
/** The settings that one switches, with what is said where they are off and where they are on. */
const SWITCHES = [
    { setting: "pin", is: "isPinned", words: ["pin", "unpin"] },
    { setting: "mute", is: "isMuted", words: ["mute", "unmute"] },
    { setting: "hide", is: "isHidden", words: ["hide", "unhide"] },
];
/** The menu in the head of a conversation. */
export class OptionsMenu {
    client;
    language;
    hidden;
    #peer = "";
    constructor(client, language, hidden) {
        this.client = client;
        this.language = language;
        this.hidden = hidden;
        for (const { setting } of SWITCHES)
            by(setting).onclick = () => this.#choose(setting);
    }
    /** Everything is said in another language from now on. */
    speak(language) {
        this.language = language;
        if (this.#peer !== "")
            this.show(this.#peer);
    }
    /** Shows how a conversation is kept; of one that is not in the list nothing can be. */
    show(peer) {
        this.#peer = peer;
        const known = this.#known;
        by("options").hidden = known === undefined;
        for (const { setting, is, words } of SWITCHES) {
            by(setting).textContent = wordOf(this.language, words[Number(known?.[is] ?? false)]);
        }
    }
    get #known() {
        return this.client.list.find((it) => it.peer === this.#peer && isKnown(it));
    }
    #choose(setting) {
        closeMenus();
        const [peer, known] = [this.#peer, this.#known];
        if (known === undefined)
            return;
        const { is } = SWITCHES.find((it) => it.setting === setting);
        const isOn = !known[is];
        // What comes of it is told by the list, as what other devices do is.
        this.client.settings(peer, { [setting]: isOn }).then(() => {
            if (setting === "hide" && isOn && this.#peer === peer)
                this.hidden();
        }, (error) => {
            if (this.#peer === peer)
                by("say-fault").textContent = sentenceOf(this.language, error.code);
        });
    }
}
