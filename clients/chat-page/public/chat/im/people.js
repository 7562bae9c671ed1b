/**
 * The account's contacts, and who of them is there, kept right while a client is connected.
 *
 * ```text
 *   online ─► SetPresence, if one has said how one is ─► Contacts behind what is here, page by page
 *                                                         └► what is told changes it from there on
 * ```
 * Knows no connection. Invariant: once all pages have come, the contacts are those of the server
 * and whom it told of since; nobody is shown as there whom the server did not tell of since the
 * client came in.
 */
import { contactOf, CONTACTS_PAGE, presenceOf, saidOf, showNumber } from "./contact.js";
/** Contacts that are kept: more no server gives (IM 9). */
const CONTACTS_MAX = 65_536;
/** Devices that are kept as there. */
const DEVICES_MAX = 65_536;
/** Pause before something is asked again that the server was too busy for. */
const AGAIN_MS = 2_000;
/** Contacts and presence. */
export class People {
    isKept;
    #isOnline = false;
    #own;
    #presence = "done";
    #list = "done";
    #againAt = 0;
    /** The version of the list, and where it goes on if it is not whole. */
    #version = 0n;
    #since = 0n;
    #contacts = new Map();
    #all = [];
    #isWhole = false;
    #there = new Map();
    #devices = 0;
    /** @param isKept whether contacts and presence are wanted at all. */
    constructor(isKept) {
        this.isKept = isKept;
    }
    /** All contacts, by their addresses. The same array until one changes. */
    get contacts() {
        const compare = (a, b) => (a.address < b.address ? -1 : 1);
        this.#all ??= [...this.#contacts.values()].sort(compare);
        return this.#all;
    }
    /** All contacts have come, since the client came in. */
    get isWhole() {
        return this.#isWhole;
    }
    /** How somebody is there, on each device on which it is. */
    presence(address) {
        return [...(this.#there.get(address)?.values() ?? [])];
    }
    /** When {@link order} has something, if nothing happens before. */
    get wakeAt() {
        return this.#isOnline && this.#isDue ? this.#againAt : Infinity;
    }
    get #isDue() {
        return this.#presence === "due" || (this.#list === "due" && this.isKept);
    }
    /** How the client is there from now on, and after each time that it comes in. */
    says(own) {
        this.#own = own;
        this.#presence = "due";
    }
    /** The client has its session. */
    online() {
        this.#isOnline = true;
        this.#againAt = 0;
        this.#presence = this.#own === undefined ? "done" : "due";
        this.#list = "due";
    }
    /** It has none any more. */
    lost() {
        this.#isOnline = false;
        this.#isWhole = false;
        this.#there.clear();
        this.#devices = 0;
    }
    /** What is to be asked now. How the client is there comes first. */
    order(now) {
        if (!this.#isOnline || now < this.#againAt)
            return undefined;
        if (this.#presence === "due" && this.#own !== undefined) {
            this.#presence = "asked";
            return { order: "presence", show: showNumber(this.#own.show), status: this.#own.status };
        }
        if (this.#list === "due" && this.isKept) {
            this.#list = "asked";
            const [after, since] = [this.#version, this.#since];
            return { order: "contacts", after, since, count: CONTACTS_PAGE };
        }
        return undefined;
    }
    /** A page has come. */
    page({ anew, since, upto, contacts, more }) {
        if (this.#list !== "asked")
            return;
        if (anew)
            this.#contacts.clear();
        if (anew || contacts.length > 0)
            this.#all = undefined;
        for (const fields of contacts)
            this.#keep(fields.address, contactOf(fields));
        this.#version = upto;
        this.#since = more ? since : 0n;
        this.#list = more ? "due" : "done";
        this.#isWhole = !more;
    }
    /** How the client is there is known. */
    isThere() {
        if (this.#presence === "asked")
            this.#presence = "done";
        if (this.#own?.show !== "offline")
            return;
        // Whoever is seen by nobody sees nobody.
        this.#there.clear();
        this.#devices = 0;
    }
    /** The server did not do what was asked. */
    failed(now, order, asksAgain) {
        const next = asksAgain ? "due" : "done";
        if (asksAgain)
            this.#againAt = now + AGAIN_MS;
        if (order === "contacts")
            this.#list = next;
        else if (this.#presence === "asked")
            this.#presence = next;
    }
    /** A contact has changed. */
    changed({ contact: fields, said }) {
        if (fields === undefined)
            return undefined;
        const { address, version } = fields;
        const contact = contactOf(fields);
        this.#keep(address, contact);
        this.#all = undefined;
        // What comes between pages comes in a page, too.
        if (this.#list === "done" && version > this.#version)
            this.#version = version;
        return { address, contact, said: saidOf(said) };
    }
    /** Somebody came, went or is there otherwise. */
    told(fields) {
        const presence = presenceOf(fields);
        const { address, device, show } = presence;
        const devices = this.#there.get(address) ?? new Map();
        this.#devices -= devices.size;
        if (device === "")
            devices.clear();
        else if (show === "offline")
            devices.delete(device);
        else if (devices.has(device) || this.#devices < DEVICES_MAX)
            devices.set(device, presence);
        this.#devices += devices.size;
        if (devices.size === 0)
            this.#there.delete(address);
        else
            this.#there.set(address, devices);
        return presence;
    }
    #keep(address, contact) {
        if (contact === undefined)
            this.#contacts.delete(address);
        else if (this.#contacts.has(address) || this.#contacts.size < CONTACTS_MAX) {
            this.#contacts.set(address, contact);
        }
    }
}
