/** The person of an open conversation: presence, and whether the two are contacts. */

import type { Client, ContactVerb, ImError } from "./im/index.js";
import { isChatroom, isGroup } from "./im/index.js";
import { by } from "./dom.js";
import { closeMenus } from "./menu.js";
import { standingOf, tieOf } from "./presence.js";
import type { Tie } from "./presence.js";
import { sentenceOf, sentenceOfContact, wordOf } from "./words.js";
import type { Language, Word } from "./words.js";

/** The buttons of the bar, and the item of the menu: their words, and the order that each gives. */
const OFFERS: Readonly<Record<Tie, {
  readonly yes?: readonly [Word, ContactVerb];
  readonly no?: readonly [Word, ContactVerb];
  readonly menu?: readonly [Word, ContactVerb];
}>> = {
  none: { menu: ["addContact", "befriend"] },
  asks: { yes: ["accept", "befriend"], no: ["decline", "refuse"] },
  asked: { no: ["cancel", "remove"] },
  friend: { menu: ["removeContact", "remove"] },
  blocked: { yes: ["unblock", "unblock"] },
};

/** The head of a conversation with one person. */
export class ContactPanel {
  #peer: string | undefined;

  constructor(
    private readonly client: Client,
    private language: Language,
    private readonly name: (peer: string) => string,
  ) {}

  speak(language: Language): void {
    this.language = language;
    this.show();
  }

  /** This conversation is open; `undefined`: none is. */
  open(peer: string | undefined): void {
    const isPerson = peer !== undefined && !isGroup(peer) && !isChatroom(peer);
    this.#peer = isPerson ? peer : undefined;
    this.show();
  }

  /** Shows what is known now. */
  show(): void {
    const peer = this.#peer;
    const contact = this.client.contacts.find(({ address }) => address === peer);
    const tie = tieOf(contact);
    const { yes, no, menu } = peer === undefined ? {} : OFFERS[tie];
    const isSeen = peer !== undefined && contact?.sees === "subscribed" && !contact.isBlocked;
    const standing = isSeen ? standingOf(this.client.presence(peer)) : undefined;
    by("standing").textContent = standing === undefined ? "" : wordOf(this.language, standing);
    by("standing").className = standing === undefined ? "" : `standing ${standing}`;
    by("contact").hidden = yes === undefined && no === undefined;
    const greeting = tie === "asks" && contact!.greeting !== "" ? ` “${contact!.greeting}”` : "";
    by("contact-text").textContent = by("contact").hidden ? ""
      : sentenceOfContact(this.language, tie, this.name(peer!)) + greeting;
    const block = tie === "blocked" || peer === undefined ? undefined
      : ["block", "block"] as readonly [Word, ContactVerb];
    const buttons = [["contact-yes", yes], ["contact-no", no], ["befriend", menu],
      ["block", block]] as const;
    for (const [id, offer] of buttons) this.#offer(id, offer);
  }

  #offer(id: string, offer: readonly [Word, ContactVerb] | undefined): void {
    const button = by<HTMLButtonElement>(id);
    button.hidden = offer === undefined;
    button.textContent = offer === undefined ? "" : wordOf(this.language, offer[0]);
    button.onclick = offer === undefined ? null : () => this.#order(offer[1]);
  }

  #order(verb: ContactVerb): void {
    closeMenus();
    const peer = this.#peer;
    if (peer === undefined) return;
    by("say-fault").textContent = "";
    // The client reports the changed contact, as it does for changes on other devices.
    this.client.changeContact(peer, verb).catch((error: ImError) => {
      const said = sentenceOf(this.language, error.code);
      if (this.#peer === peer) by("say-fault").textContent = said;
    });
  }
}
