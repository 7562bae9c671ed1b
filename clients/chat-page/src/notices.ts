/**
 * Notifications of the browser: of which message, with which words, and whether the user wants any.
 *
 * Invariant: one is shown only while the page is hidden, and only if the user has turned them on;
 * with the mode `private` it contains nothing of the message.
 */

import { isMentioned, isOfNothingKnown } from "./im/index.js";
import type { Conversation, Message } from "./im/index.js";
import type { KeptText } from "./login.js";
import { wordOf } from "./words.js";
import type { Language } from "./words.js";

/** What the user wants. */
export type NoticeMode = "off" | "on" | "private";

/** A notification. */
export interface Notice {
  readonly title: string;
  readonly body: string;
}

/** Characters of a message in a notification. */
const BODY_MAX = 200;

/** The notification of a message; `undefined`: none. `from`: how its sender is called. */
export function noticeOf(
  message: Message,
  known: Conversation | undefined,
  { account, language, title, from, mode }: {
    readonly account: string;
    readonly language: Language;
    /** How the conversation is called. */
    readonly title: string;
    readonly from: string;
    readonly mode: NoticeMode;
  },
): Notice | undefined {
  const { isOwn, target, recall, changes, text } = message;
  const isInvited = changes.some(({ verb, members }) =>
    (verb === "invite" || verb === "add") && members.includes(account));
  const isSaid = changes.length === 0 && target === undefined && recall === undefined
    && !isOfNothingKnown(message);
  if (mode === "off" || isOwn || !(isSaid || isInvited)) return undefined;
  if ((known?.isMuted ?? false) && !isMentioned(message, account)) return undefined;
  const word = isInvited ? "newInvitation" : "newMessage";
  if (mode === "private") return { title: wordOf(language, "title"), body: wordOf(language, word) };
  const said = isInvited ? wordOf(language, word) : Array.from(text).slice(0, BODY_MAX).join("");
  return { title, body: title === from ? said : `${from}: ${said}` };
}

/** The notifications of this browser. */
export class Notices {
  constructor(private readonly kept: KeptText) {}

  /** Whether this browser has notifications. */
  get isPossible(): boolean {
    return "Notification" in globalThis;
  }

  /** The user has forbidden them in the browser. */
  get isDenied(): boolean {
    return this.isPossible && Notification.permission === "denied";
  }

  get mode(): NoticeMode {
    const { text } = this.kept;
    const isGranted = this.isPossible && Notification.permission === "granted";
    return isGranted && (text === "on" || text === "private") ? text : "off";
  }

  /** Sets the mode; asks the user for permission first. */
  async choose(mode: NoticeMode): Promise<void> {
    if (mode !== "off" && this.isPossible) await Notification.requestPermission();
    this.kept.text = mode === "off" ? null : mode;
  }

  /** Shows one, in place of the one before of the same conversation. */
  show(peer: string, { title, body }: Notice, opened: () => void): void {
    if (document.visibilityState === "visible") return;
    try {
      const notice = new Notification(title, { body, tag: peer, icon: "/chat/icon.svg" });
      notice.onclick = () => {
        globalThis.focus();
        notice.close();
        opened();
      };
    } catch {
      // Browsers on phones show them from service workers alone.
    }
  }
}
