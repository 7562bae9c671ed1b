/** Who is in the group that is looked at, and what one may do about it. */

import type { Client, GroupMembers, GroupVerb, ImError, Member } from "./im/index.js";
import { roleName } from "./changes.js";
import { by, made } from "./dom.js";
import { namesOf, shortName } from "./place.js";
import { sentenceOf, sentenceOfMembers, wordOf } from "./words.js";
import type { Language } from "./words.js";

/** The panel of one group. */
export class MembersPanel {
  /** Who is in it, as far as it was read. */
  addresses: readonly string[] = [];
  #isOver = false;
  /** Something has changed since the list was asked for. */
  #isOld = false;
  #isReading = false;

  constructor(
    private readonly client: Client,
    readonly group: string,
    private readonly account: string,
    private readonly language: Language,
    private readonly titled: (title: string) => void,
  ) {
    by("group").hidden = true;
    by("members").replaceChildren();
    by("group-about").textContent = "";
    by("group-fault").textContent = "";
    this.#expand(false);
    void this.refresh();
  }

  /** Another conversation is looked at. */
  close(): void {
    this.#isOver = true;
    by("group").hidden = true;
  }

  toggle(): void {
    this.#expand(by("group").hidden);
  }

  /** Asks who is in the group. One list is read at a time. */
  async refresh(): Promise<void> {
    this.#isOld = true;
    if (this.#isReading) return;
    this.#isReading = true;
    while (this.#isOld && !this.#isOver) {
      this.#isOld = false;
      try {
        const found = await this.client.members(this.group);
        if (!this.#isOver) this.#show(found);
      } catch (error) {
        this.#fails(error as ImError);
      }
    }
    this.#isReading = false;
  }

  /** Adds those who were named. */
  add(): void {
    const field = by<HTMLInputElement>("add-names");
    const members = namesOf(field.value);
    if (members === undefined) {
      by("group-fault").textContent = sentenceOf(this.language, "invalid");
      return;
    }
    field.value = "";
    this.#order("add", members);
  }

  /** Leaves the group. */
  quit(): void {
    this.#order("leave", []);
  }

  #order(verb: Exclude<GroupVerb, "create">, members: readonly string[]): void {
    by("group-fault").textContent = "";
    // What comes of it is told by a message, as what others do is.
    this.client.changeGroup(this.group, verb, { members }).catch((error: ImError) => {
      if (error.code !== "unchanged") this.#fails(error);
    });
  }

  #fails(error: ImError): void {
    const isQuiet = this.#isOver || ["disconnected", "closed"].includes(error.code);
    if (!isQuiet) by("group-fault").textContent = sentenceOf(this.language, error.code);
  }

  #expand(isShown: boolean): void {
    by("group").hidden = !isShown;
    by("members-shown").setAttribute("aria-expanded", String(isShown));
  }

  #show({ title, members, isClosed }: GroupMembers): void {
    this.titled(title);
    this.addresses = members.map(({ address }) => address);
    const word = (it: Parameters<typeof wordOf>[1]) => wordOf(this.language, it);
    const closed = isClosed ? ` · ${word("closed")}` : "";
    by("group-about").textContent = `${sentenceOfMembers(this.language, members.length)}${closed}`;
    const mine = members.find(({ address }) => address === this.account)?.role ?? "member";
    by("add").hidden = mine === "member";
    by("quit").hidden =
      mine === "owner" && members.filter(({ role }) => role === "owner").length < 2;
    by("members").replaceChildren(...members.map((it) => this.#item(it, mine)));
  }

  #item({ address, role, isMuted }: Member, mine: Member["role"]): HTMLElement {
    const item = made("li");
    const domain = this.account.slice(this.account.indexOf("@") + 1);
    const muted = isMuted ? `, ${wordOf(this.language, "muted")}` : "";
    item.append(made("span", shortName(address, domain)),
      made("small", `${roleName(this.language, role)}${muted}`));
    const isLess =
      mine === "owner" ? address !== this.account : mine === "admin" && role === "member";
    if (isLess) {
      const button = made("button", wordOf(this.language, "remove"), "plain");
      button.addEventListener("click", () => this.#order("remove", [address]));
      item.append(button);
    }
    return item;
  }
}
