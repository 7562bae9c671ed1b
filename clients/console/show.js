// How things are shown: numbers, times, tables, forms, notices, questions.
//
// It knows no page and asks the API for nothing.

import { h, put, set } from './dom.js';
import { Refused } from './api.js';
import { t } from './texts.js';

/** @typedef {import('./dom.js').Children} Children */

const whole = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

/** @param {number | null | undefined} value */
export const number = value => (value === null || value === undefined ? '–' : whole.format(value));

/** A number that has little room: 1.23M. @param {number} value */
export const compact = value =>
  Math.abs(value) < 10_000 ? whole.format(Math.round(value * 10) / 10) : short.format(value);

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (value === null || value === undefined) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let at = 0;
  let left = value;
  for (; left >= 1024 && at < units.length - 1; at++) left /= 1024;
  return `${at && left < 100 ? left.toFixed(1) : Math.round(left)} ${units[at]}`;
}

/** @param {number} ms */
export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  /** @type {[number, string][]} */
  const units = [[86_400, t('d')], [3_600, t('h')], [60, t('min')], [1, t('s')]];
  const at = units.findIndex(([length]) => seconds >= length);
  if (at < 0) return `0 ${t('s')}`;
  const [length, unit] = units[at];
  const rest = units[at + 1];
  const more = rest ? Math.floor((seconds % length) / rest[0]) : 0;
  return `${Math.floor(seconds / length)} ${unit}${more ? ` ${more} ${rest[1]}` : ''}`;
}

/** @param {number | null | undefined} ms Unix milliseconds; 0: never */
export function moment(ms) {
  if (!ms) return '–';
  const at = new Date(ms);
  const two = (/** @type {number} */ value) => String(value).padStart(2, '0');
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** The time of day. @param {number} ms */
export const clock = ms => moment(ms).slice(11);

/** A time, how long ago it is, and when it was. @param {number | null | undefined} ms */
export function ago(ms) {
  if (!ms) return h('span', { class: 'quiet' }, '–');
  const time = h('time', { datetime: new Date(ms).toISOString(), title: moment(ms) });
  put(time, t('{time} ago', { time: duration(Date.now() - ms) }));
  return time;
}

/** A name from outside: kept on one line, cut when it is long, whole in its title. @param {string} text */
export function name(text) {
  // Controls and marks of direction are seen as what they are.
  const plain = text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, it => `\\u{${it.codePointAt(0)?.toString(16)}}`);
  const cut = plain.length > 120 ? `${plain.slice(0, 118)}…` : plain;
  return h('bdi', { class: 'name', title: plain.slice(0, 2_000) }, cut);
}

/** @param {string} word @param {'good' | 'bad' | 'warn' | 'off'} kind */
export const badge = (word, kind) => h('span', { class: `badge ${kind}` }, word);

/** @param {boolean} is */
export const online = is => (is ? badge(t('online'), 'good') : badge(t('offline'), 'off'));

/**
 * @template T
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: T) => Children} cell
 * @property {boolean} [end] numbers, which stand at the end
 * @property {boolean} [head] what the row is called
 */

/**
 * A table that scrolls within itself where it has no room.
 * @template T
 * @param {string} caption for who does not see it
 * @param {Column<T>[]} columns
 * @param {T[]} rows
 * @param {Children} [none] what is said when there are no rows
 * @param {boolean} [isSmall] it has room on a phone, too; else its rows are cards there
 */
export function table(caption, columns, rows, none = t('Nothing to show.'), isSmall = false) {
  if (!rows.length) return h('p', { class: 'none' }, none);
  const kind = (/** @type {Column<T>} */ column) => (column.end ? 'end' : undefined);
  const heads = columns.map(column => h('th', { scope: 'col', class: kind(column) }, column.title));
  const row = (/** @type {T} */ it) =>
    h('tr', {}, columns.map(column =>
      column.head
        ? h('th', { scope: 'row' }, column.cell(it))
        : h('td', { class: kind(column), 'data-title': column.title }, h('div', {}, column.cell(it)))));
  const inner = h('table', {}, h('caption', { class: 'unseen' }, caption),
    h('thead', {}, h('tr', {}, heads)), h('tbody', {}, rows.map(row)));
  return h('div', { class: isSmall ? 'scroll keep' : 'scroll', tabindex: 0, role: 'region', 'aria-label': caption }, inner);
}

/** Names and values. @param {[string, Children][]} pairs */
export const pairs = pairs =>
  h('dl', { class: 'pairs' }, pairs.map(([term, value]) => h('div', {}, h('dt', {}, term), h('dd', {}, value))));

/** @param {string} title @param {Children[]} children */
export const card = (title, ...children) => h('section', { class: 'card' }, h('h2', {}, title), ...children);

/**
 * A field with its name.
 * @param {string} label
 * @param {HTMLElement} input
 * @param {string} [hint]
 */
export function field(label, input, hint) {
  return h('label', { class: 'field' }, h('span', {}, label), input, hint && h('small', {}, hint));
}

/** What was wrong, in a sentence. @param {unknown} error */
export function why(error) {
  if (error instanceof Refused) return error.message;
  return error instanceof Error ? error.message : String(error);
}

/** Says what was done, at the foot of the page. @param {string} text @param {'good' | 'bad'} [kind] */
export function notice(text, kind = 'good') {
  const place = document.getElementById('notices');
  if (!place) return;
  const close = h('button', { class: 'plain', type: 'button', 'aria-label': t('Close') }, '×');
  const it = h('div', { class: `notice ${kind}` }, h('span', {}, text), close);
  const end = () => it.remove();
  close.addEventListener('click', end);
  if (kind === 'good') setTimeout(end, 8_000);
  while (place.childElementCount > 3) place.firstElementChild?.remove();
  put(place, it);
}

/**
 * A button that does something; it waits for the answer and says what was wrong.
 * @param {string} label
 * @param {() => Promise<any>} act
 * @param {Record<string, any>} [properties]
 */
export function button(label, act, properties = {}) {
  const it = h('button', { type: 'button', ...properties }, label);
  it.addEventListener('click', async () => {
    it.disabled = true;
    try {
      await act();
    } catch (error) {
      notice(why(error), 'bad');
    }
    it.disabled = false;
  });
  return it;
}

/**
 * Asks before something is done that cannot be undone.
 * @param {string} question
 * @param {string} label of the button that says yes
 * @param {string} [more]
 * @returns {Promise<boolean>}
 */
export function sure(question, label, more) {
  const yes = h('button', { type: 'submit', value: 'yes', class: 'danger' }, label);
  const no = h('button', { type: 'submit', value: 'no', class: 'second' }, t('Cancel'));
  const form = h('form', { method: 'dialog' }, h('h2', { id: 'question' }, question),
    more && h('p', {}, more), h('div', { class: 'row end' }, no, yes));
  const dialog = h('dialog', { 'aria-labelledby': 'question' }, form);
  put(document.body, dialog);
  dialog.showModal();
  no.focus();
  return new Promise(resolve => dialog.addEventListener('close', () => {
    dialog.remove();
    resolve(dialog.returnValue === 'yes');
  }));
}

/**
 * A part of a page that is loaded: it says so, and says what was wrong.
 * @param {Element} place
 * @param {() => Promise<Children>} load
 */
export async function loaded(place, load) {
  place.setAttribute('aria-busy', 'true');
  try {
    set(place, await load());
  } catch (error) {
    if (!(error instanceof DOMException)) set(place, h('p', { class: 'fault', role: 'alert' }, why(error)));
  }
  place.removeAttribute('aria-busy');
}

/** Has a text in the clipboard. @param {string} text */
export const copy = text => button(t('Copy'), async () => {
  await navigator.clipboard.writeText(text);
  notice(t('Copied.'));
}, { class: 'second small' });
