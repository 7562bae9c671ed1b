// Packets of a client, a user, an address or a topic, decoded live.
//
// The server redacts and decodes; the page shows lines and keeps the newest for a file. A trace runs
// until it is stopped, its time limit is reached or the page is closed. Invariant: no packet becomes
// markup.

import { stream, withQuery } from './api.js';
import { h, put, say, set } from './dom.js';
import { field, submits } from './forms.js';
import { badge, button, name, number } from './show.js';
import { t } from './texts.js';

/** Events that are kept, for the file too. The oldest make room. */
const KEPT_MAX = 5_000;

/** Lines that are drawn. */
const DRAWN_MAX = 400;

/** Time between two drawings, milliseconds: there may be a thousand events a second. */
const DRAW_MS = 250;

const SCOPES = /** @type {[string, string][]} */ ([['client', t('Client or device')], ['user', t('User or account')],
  ['address', t('IP address')], ['topic', t('Topic filter')]]);
const PAYLOADS = /** @type {[string, string][]} */ ([['head', t('First 64 bytes')], ['none', t('None')], ['whole', t('Complete')]]);
const TIMES = /** @type {[string, string][]} */ ([['300', t('5 minutes')], ['60', t('1 minute')], ['900', t('15 minutes')], ['3600', t('1 hour')]]);

/** @typedef {{ name: string, told: any }} Entry */

/** @param {string} of @param {[string, string][]} options */
const select = (of, options) => h('select', { name: of }, options.map(([value, label]) => h('option', { value }, label)));

/** The time of a day, with milliseconds. @param {number} ms */
function clock(ms) {
  const at = new Date(ms);
  const two = (/** @type {number} */ value, length = 2) => String(value).padStart(length, '0');
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${two(at.getMilliseconds(), 3)}`;
}

/** @param {any} value */
function shown(value) {
  if (Array.isArray(value)) return value.join(', ');
  if (value !== null && typeof value === 'object') return t('redacted, {count} bytes', { count: value.redacted });
  return String(value);
}

/** @param {any} it */
function payload(it) {
  if (!it) return null;
  const cut = it.shown !== undefined && new TextEncoder().encode(it.shown).length < it.bytes ? '…' : '';
  const text = it.shown === undefined ? `base64 ${it.shown_base64}` : it.shown + cut;
  return h('div', { class: 'quiet' }, t('payload, {count} bytes', { count: number(it.bytes) }), text && ': ', text && name(text));
}

/** @param {any} it */
const kind = it => (/^(refused|dropped|undecoded)$/.test(it.kind) ? 'bad' : it.direction === 'in' ? 'good' : it.direction ? 'warn' : 'off');

/** @param {Entry} entry */
function line({ name: what, told: it }) {
  if (what === 'left_out') return h('div', { class: 'fault' }, t('{count} events are missing: they arrived too fast.', { count: number(it.count) }));
  const fields = Object.entries(it.fields).flatMap(([key, value]) => [' ', h('span', { class: 'quiet' }, `${key} `), name(shown(value))]);
  const way = it.direction === 'in' ? t('received') : it.direction === 'out' ? t('sent') : t('server');
  return h('div', {}, h('span', { class: 'mono' }, clock(it.at_ms)), ' ', badge(it.kind, /** @type {any} */ (kind(it))), ' ',
    h('span', { class: 'quiet' }, way), ' ', it.client_id !== null && name(it.client_id), ' ', h('span', { class: 'quiet' }, it.protocol),
    ...fields, it.bytes > 0 && h('span', { class: 'quiet' }, ` (${t('{count} bytes', { count: number(it.bytes) })})`), payload(it.payload));
}

/** An object a line, as `holdline trace --json` prints them. @param {Entry[]} kept */
const lines = kept => kept.map(({ name: what, told }) => JSON.stringify(what === 'trace' ? told : { left_out: told.count }) + '\n').join('');

/** Gives a text to whoever looks, as a file. @param {string} text @param {string} of */
function save(text, of) {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/x-ndjson' }));
  const link = h('a', { href: url, download: of });
  link.click();
  URL.revokeObjectURL(url);
}

/** @param {import('./console.js').Place} place */
function show(place) {
  const scope = select('scope', SCOPES);
  const whom = h('input', { name: 'whom', required: true, 'data-errors': 'client,user,address,topic,bad_request', autocomplete: 'off', spellcheck: 'false', maxlength: 2_048 });
  const [payloads, times] = [select('payload', PAYLOADS), select('duration_s', TIMES)];
  const given = SCOPES.map(([of]) => of).find(of => place.query.get(of));
  if (given) [scope.value, whom.value] = [given, place.query.get(given) ?? ''];
  const state = h('p', { id: 'trace-state', class: 'quiet', role: 'status' }, t('No trace is running.'));
  const list = h('div', { class: 'trace', role: 'log', 'aria-live': 'off', 'aria-label': t('Traced packets'), tabindex: 0 });
  /** @type {Entry[]} */
  let kept = [];
  let lost = 0; // here, for want of room
  let isPaused = false;
  let timer = 0;
  /** @type {AbortController | null} */
  let going = null;
  const draw = () => {
    timer = 0;
    const isAtEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 40;
    set(list, lost + Math.max(0, kept.length - DRAWN_MAX) > 0 && h('div', { class: 'quiet' },
      t('Older packets: {count} in the file, {lost} discarded.', { count: number(kept.length - Math.min(kept.length, DRAWN_MAX)), lost: number(lost) })),
      kept.slice(-DRAWN_MAX).map(line));
    if (isAtEnd) list.scrollTop = list.scrollHeight;
  };
  const soon = () => {
    if (!isPaused) timer ||= window.setTimeout(draw, DRAW_MS);
  };
  const keep = (/** @type {string} */ what) => (/** @type {any} */ told) => {
    kept.push({ name: what, told });
    if (kept.length > KEPT_MAX) {
      lost += kept.length - KEPT_MAX;
      kept = kept.slice(-KEPT_MAX);
    }
    soon();
  };
  const start = h('button', { type: 'submit', id: 'trace-start' }, t('Start'));
  const end = h('button', { type: 'button', id: 'trace-end', class: 'second', disabled: true }, t('Stop'));
  end.addEventListener('click', () => going?.abort());
  const pause = h('button', { type: 'button', class: 'second', 'aria-pressed': 'false' }, t('Pause'));
  pause.addEventListener('click', () => {
    isPaused = !isPaused;
    pause.setAttribute('aria-pressed', String(isPaused));
    soon();
  });
  const clear = button(t('Clear'), async () => {
    [kept, lost] = [[], 0];
    draw();
  }, { class: 'second' });
  const store = button(t('Save as file'), async () => save(lines(kept), `trace-${Date.now()}.jsonl`), { class: 'second' });
  const follow = async () => {
    const mine = (going = new AbortController());
    end.disabled = false;
    const [of, wanted] = [scope.value, whom.value];
    // The address names the trace for links; the page is not reloaded for it.
    history.replaceState(null, '', `#/trace?${new URLSearchParams({ [of]: wanted })}`);
    let over = t('stopped');
    try {
      await stream(withQuery('v1/trace', { [of]: wanted, payload: payloads.value, duration_s: times.value }), {
        trace: keep('trace'),
        left_out: keep('left_out'),
        over: told => (over = told.reason === 'time' ? t('time limit reached') : told.reason === 'stopping' ? t('the server is stopping') : told.reason),
      }, mine.signal, () => say(state, t('Tracing {scope} {target}.', { scope: of, target: wanted })));
      say(state, t('Trace of {target} finished: {reason}.', { target: wanted, reason: over }));
    } catch (error) {
      if (!mine.signal.aborted) throw error;
      say(state, t('Trace of {target} finished: {reason}.', { target: wanted, reason: over }));
    } finally {
      going = null;
      end.disabled = true;
    }
  };
  const form = h('form', { class: 'filter' }, field(t('Trace'), scope, t('What the next field names. Default: a client or device.')),
    field(t('Identifier, name, address or filter'), whom, t('The exact client ID, device ID, user name or IP address, or a topic filter: at most 2,048 characters.')),
    field(t('Payload shown'), payloads, t('How much of each payload is shown. Default: the first 64 bytes.')),
    field(t('Stop after'), times, t('The trace ends after this time at the latest. Default: 5 minutes.')), start);
  submits(form, follow);
  place.gone.addEventListener('abort', () => {
    going?.abort();
    clearTimeout(timer);
  });
  put(place.root, form, h('section', { class: 'card' }, h('h2', {}, t('Traced packets')), state,
    h('div', { class: 'row' }, end, pause, clear, store), list));
}

export const page = { title: t('Trace'), scopes: ['trace'], lead: t('Packets of a client, a user, an address or a topic, decoded live. Passwords and tokens are never shown; the audit log records every trace.'), show };
