// The API, as the console calls it: JSON with the session's cookie, and streams of events.
//
// Paths are relative, so that the console works below any path of a proxy. This module knows no page.

import { t } from './texts.js';

/** A call that the API refused, or that got no answer. */
export class Refused extends Error {
  /**
   * @param {number} status 0: nothing came back
   * @param {string} code
   * @param {string} message
   */
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** What was wrong, in a sentence. @param {unknown} error */
export const why = error => (error instanceof Error ? error.message : String(error));

/** What whoever asked hears when the session is over. */
let whenOver = () => {};

/** @param {() => void} over */
export function onSessionOver(over) {
  whenOver = over;
}

/** Longest time for an answer, milliseconds: what a push may wait, and then some. */
const ANSWER_MS = 45_000;

/**
 * Calls the API.
 * @param {string} method
 * @param {string} path without the first slash
 * @param {any} [body]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function ask(method, path, body, signal) {
  const limit = AbortSignal.timeout(ANSWER_MS);
  let answer;
  try {
    answer = await fetch(path, {
      method,
      body: body === undefined ? undefined : JSON.stringify(body),
      headers: { 'Holdline-Console': '1' },
      cache: 'no-store',
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0, 'unreachable', t('No answer from the server.'));
  }
  const told = await answer.json().catch(() => null);
  if (answer.ok) return told;
  const { code = 'failed', message = t('Unexpected answer: HTTP {status}.', { status: answer.status }) } = told?.error ?? {};
  if (answer.status === 401 && path !== 'v1/session') whenOver();
  throw new Refused(answer.status, code, message);
}

/** Whether this path of the API exists. @param {string} path */
export const exists = path => ask('GET', path).then(() => true, error => {
  if (error.status !== 404) throw error;
  return false;
});

/**
 * A path with a query; values that are null, undefined or an empty text are left out.
 * @param {string} path
 * @param {Record<string, string | number | boolean | null | undefined>} query
 */
export function withQuery(path, query) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const text = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]));
  return pairs.length ? `${path}?${text}` : path;
}

/**
 * Reads a stream of events to its end, once, also while the page is in the background. A refusal is an error with its reason.
 * @param {string} path
 * @param {Record<string, (told: any) => void>} heard by the names of events
 * @param {AbortSignal} signal ends it
 * @param {() => void} [begun] it is there, and what happens from now on is heard
 */
export async function stream(path, heard, signal, begun = () => {}) {
  const answer = await fetch(path, { headers: { 'Holdline-Console': '1' }, cache: 'no-store', signal });
  if (!answer.ok || !answer.body) {
    const told = await answer.json().catch(() => null);
    if (answer.status === 401) whenOver();
    const { code = 'failed', message = t('Unexpected answer: HTTP {status}.', { status: answer.status }) } = told?.error ?? {};
    throw new Refused(answer.status, code, message);
  }
  begun();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split('\n\n');
    rest = parts.pop() ?? '';
    for (const part of parts) {
      const of = (/** @type {string} */ name) => part.split('\n').filter(it => it.startsWith(`${name}:`))
        .map(it => it.slice(name.length + 1).trim()).join('\n');
      const hear = heard[of('event')];
      if (hear) hear(JSON.parse(of('data')));
    }
  }
}

/** Whether somebody looks at the page. */
const isSeen = () => document.visibilityState !== 'hidden';

/**
 * Follows a stream while the page is in the foreground, and reconnects when it breaks off.
 * @param {() => string} path where it is, asked each time that it is opened
 * @param {Record<string, (told: any, id: string) => void>} heard by the names of events
 * @param {(state: 'live' | 'paused' | 'lost') => void} [changed]
 * @returns {() => void} ends it
 */
export function follow(path, heard, changed = () => {}) {
  /** @type {EventSource | null} */
  let source = null;
  let timer = 0;
  let waits_ms = 500;
  const close = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
  };
  const open = () => {
    close();
    if (!isSeen()) return changed('paused');
    const opened = (source = new EventSource(path()));
    opened.onopen = () => {
      waits_ms = 500;
      changed('live');
    };
    opened.onerror = () => {
      if (source !== opened) return;
      close();
      changed('lost');
      // An EventSource hides why the server refused it; the session tells whether it is over.
      ask('GET', 'v1/session').then(told => told.session || whenOver(), () => {});
      timer = window.setTimeout(open, waits_ms);
      waits_ms = Math.min(waits_ms * 2, 10_000);
    };
    for (const [name, hear] of Object.entries(heard)) {
      opened.addEventListener(name, event => hear(JSON.parse(event.data), event.lastEventId));
    }
  };
  const look = () => (isSeen() ? open() : (close(), changed('paused')));
  document.addEventListener('visibilitychange', look);
  open();
  return () => {
    document.removeEventListener('visibilitychange', look);
    close();
  };
}
