/** Who is in the group that is looked at, and what one may do about it. */
import { roleName } from "./changes.js";
import { by, made } from "./dom.js";
import { namesOf, shortName } from "./place.js";
import { sentenceOf, sentenceOfMembers, wordOf } from "./words.js";
/** The panel of one group. */
export class MembersPanel {
    client;
    group;
    account;
    language;
    titled;
    /** Who is in it, as far as it was read. */
    addresses = [];
    #isOver = false;
    /** Something has changed since the list was asked for. */
    #isOld = false;
    #isReading = false;
    constructor(client, group, account, language, titled) {
        this.client = client;
        this.group = group;
        this.account = account;
        this.language = language;
        this.titled = titled;
        by("group").hidden = true;
        by("members").replaceChildren();
        by("group-about").textContent = "";
        by("group-fault").textContent = "";
        this.#expand(false);
        void this.refresh();
    }
    /** Another conversation is looked at. */
    close() {
        this.#isOver = true;
        by("group").hidden = true;
    }
    toggle() {
        this.#expand(by("group").hidden);
    }
    /** Asks who is in the group. One list is read at a time. */
    async refresh() {
        this.#isOld = true;
        if (this.#isReading)
            return;
        this.#isReading = true;
        while (this.#isOld && !this.#isOver) {
            this.#isOld = false;
            try {
                const found = await this.client.members(this.group);
                if (!this.#isOver)
                    this.#show(found);
            }
            catch (error) {
                this.#fails(error);
            }
        }
        this.#isReading = false;
    }
    /** Adds those who were named. */
    add() {
        const field = by("add-names");
        const members = namesOf(field.value);
        if (members === undefined) {
            by("group-fault").textContent = sentenceOf(this.language, "invalid");
            return;
        }
        field.value = "";
        this.#order("add", members);
    }
    /** Leaves the group. */
    quit() {
        this.#order("leave", []);
    }
    #order(verb, members) {
        by("group-fault").textContent = "";
        // What comes of it is told by a message, as what others do is.
        this.client.changeGroup(this.group, verb, { members }).catch((error) => {
            if (error.code !== "unchanged")
                this.#fails(error);
        });
    }
    #fails(error) {
        const isQuiet = this.#isOver || ["disconnected", "closed"].includes(error.code);
        if (!isQuiet)
            by("group-fault").textContent = sentenceOf(this.language, error.code);
    }
    #expand(isShown) {
        by("group").hidden = !isShown;
        by("members-shown").setAttribute("aria-expanded", String(isShown));
    }
    #show({ title, members, isClosed }) {
        this.titled(title);
        this.addresses = members.map(({ address }) => address);
        const word = (it) => wordOf(this.language, it);
        const closed = isClosed ? ` · ${word("closed")}` : "";
        by("group-about").textContent = `${sentenceOfMembers(this.language, members.length)}${closed}`;
        const mine = members.find(({ address }) => address === this.account)?.role ?? "member";
        by("add").hidden = mine === "member";
        by("quit").hidden =
            mine === "owner" && members.filter(({ role }) => role === "owner").length < 2;
        by("members").replaceChildren(...members.map((it) => this.#item(it, mine)));
    }
    #item({ address, role, isMuted }, mine) {
        const item = made("li");
        const domain = this.account.slice(this.account.indexOf("@") + 1);
        const muted = isMuted ? `, ${wordOf(this.language, "muted")}` : "";
        item.append(made("span", shortName(address, domain)), made("small", `${roleName(this.language, role)}${muted}`));
        const isLess = mine === "owner" ? address !== this.account : mine === "admin" && role === "member";
        if (isLess) {
            const button = made("button", wordOf(this.language, "remove"), "plain");
            button.addEventListener("click", () => this.#order("remove", [address]));
            item.append(button);
        }
        return item;
    }
}
