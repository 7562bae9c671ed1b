/**
 * The login that a browser keeps over a reload: the account and, of one with a password, a token of
 * the server (IM 3.5). The password is never kept.
 *
 * Knows no page and no client. Invariant: a login is in one storage at a time, and what is damaged
 * is read as none.
 */

/** Where text is kept. */
export interface KeptText {
  text: string | null;
}

/** The token for the next login. */
export interface KeptToken {
  readonly token: string;
  /** When it expires, Unix milliseconds. */
  readonly until: number;
  /** From when on a new one is requested, Unix milliseconds. */
  readonly renewAt: number;
}

/** A login. */
export interface KeptLogin {
  readonly account: string;
  /** Only a password, or a token, lets this account in. */
  readonly needsPassword: boolean;
  readonly token?: KeptToken;
}

/** A token that was issued now: a new one is requested after half its time. */
export function issued(token: string, until: number, now: number): KeptToken {
  return { token, until, renewAt: now + (until - now) / 2 };
}

/** How this login is made without asking anybody: by a token, by nothing, or not at all. */
export function wayOf({ needsPassword, token }: KeptLogin, now: number): "token" | "open" | "ask" {
  if (token !== undefined && now < token.until) return "token";
  return needsPassword ? "ask" : "open";
}

/** A login as text. */
export function printLogin(login: KeptLogin): string {
  return JSON.stringify(login);
}

/** The login that was printed; `undefined`: the text is none. */
export function parseLogin(text: string | null): KeptLogin | undefined {
  try {
    const found = JSON.parse(text ?? "null") as Partial<KeptLogin> | null;
    const { account, needsPassword = true, token } = found ?? {};
    if (typeof account !== "string" || account === "") return undefined;
    const login = { account, needsPassword: needsPassword !== false };
    return isToken(token) ? { ...login, token } : login;
  } catch {
    return undefined;
  }
}

function isToken(token: unknown): token is KeptToken {
  const { token: secret, until, renewAt } = (token ?? {}) as Partial<KeptToken>;
  return typeof secret === "string" && Number.isFinite(until) && Number.isFinite(renewAt);
}

/** The login of this tab, or of this browser where the user stays logged in. */
export class LoginShelf {
  constructor(private readonly tab: KeptText, private readonly browser: KeptText) {}

  get login(): KeptLogin | undefined {
    return parseLogin(this.tab.text) ?? parseLogin(this.browser.text);
  }

  /** Whether it is kept when the tab is closed. */
  get stays(): boolean {
    return this.tab.text === null && this.browser.text !== null;
  }

  keep(login: KeptLogin, stays: boolean): void {
    this.clear();
    (stays ? this.browser : this.tab).text = printLogin(login);
  }

  clear(): void {
    [this.tab.text, this.browser.text] = [null, null];
  }
}
