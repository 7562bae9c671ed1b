// Presentation: numbers, times, tables, forms, notices, confirmations.
//
// This module knows no page and calls no API.

import { h, put, set } from './dom.js';
import { why } from './api.js';
import { blame } from './forms.js';
import { t } from './texts.js';

/** @typedef {import('./dom.js').Children} Children */

const whole = new Intl.NumberFormat('en');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });

/** @param {number | null | undefined} value */
export const number = value => (value === null || value === undefined ? '–' : whole.format(value));

/** A number that has little room: 1.23M. @param {number} value */
export const compact = value =>
  Math.abs(value) < 10_000 ? whole.format(Math.round(value * 10) / 10) : short.format(value);

/** A number with its unit, which no line break parts. @param {number | string} value @param {string} of */
export const unit = (value, of) => `${value}\u00a0${of}`;

/** @param {number | null | undefined} value */
export function bytes(value) {
  if (value === null || value === undefined) return '–';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let at = 0;
  let left = value;
  for (; left >= 1024 && at < units.length - 1; at++) left /= 1024;
  return unit(at && left < 100 ? left.toFixed(1) : Math.round(left), units[at]);
}

/** @param {number} ms */
export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  /** @type {[number, string][]} */
  const units = [[86_400, t('d')], [3_600, t('h')], [60, t('min')], [1, t('s')]];
  const at = units.findIndex(([length]) => seconds >= length);
  if (at < 0) return unit(0, t('s'));
  const [length, name] = units[at];
  const rest = units[at + 1];
  const more = rest ? Math.floor((seconds % length) / rest[0]) : 0;
  const first = unit(Math.floor(seconds / length), name);
  return more ? `${first}\u00a0${unit(more, rest[1])}` : first;
}

/** @param {number | null | undefined} ms Unix milliseconds; 0: never */
export function moment(ms) {
  if (!ms) return '–';
  const at = new Date(ms);
  const two = (/** @type {number} */ value) => String(value).padStart(2, '0');
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** A moment that stays on one line. @param {number | null | undefined} ms */
export const when = ms => h('span', { class: 'figure mono' }, moment(ms));

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
  // Control characters and marks of direction are shown as escapes.
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
 * @property {string} [sort] the list can be sorted by it: its name in the address, and the field of a row
 * @property {(row: T) => any} [by] the value to sort by, if it is no field of that name
 */

/**
 * A table that scrolls within its own box where it is too wide.
 * @template T
 * @param {string} caption for who does not see it
 * @param {Column<T>[]} columns
 * @param {T[]} rows
 * @param {Children} [none] what is said when there are no rows
 * @param {boolean} [isSmall] it has room on a phone, too; else its rows are cards there
 */
export function table(caption, columns, rows, none = t('Nothing to show.'), isSmall = false) {
  if (!rows.length) return h('p', { class: 'none' }, none);
  const heads = columns.map(column => h('th', { scope: 'col', class: column.end ? 'end' : undefined }, column.title));
  return grid(caption, columns, rows, heads, isSmall);
}

/**
 * The table itself, below these heads.
 * @template T
 * @param {string} caption
 * @param {Column<T>[]} columns
 * @param {T[]} rows
 * @param {Element[]} heads
 * @param {boolean} isSmall
 */
function grid(caption, columns, rows, heads, isSmall) {
  const kind = (/** @type {Column<T>} */ column) => (column.end ? 'end' : undefined);
  const row = (/** @type {T} */ it) =>
    h('tr', {}, columns.map(column =>
      column.head
        ? h('th', { scope: 'row' }, column.cell(it))
        : h('td', { class: kind(column), 'data-title': column.title }, h('div', {}, column.cell(it)))));
  const inner = h('table', {}, h('caption', { class: 'unseen' }, caption),
    h('thead', {}, h('tr', {}, heads)), h('tbody', {}, rows.map(row)));
  return h('div', { class: isSmall ? 'scroll keep' : 'scroll', tabindex: 0, role: 'region', 'aria-label': caption }, inner);
}

/**
 * Rows in the order that an address names: `queued`, or `-queued` for the largest first. Rows
 * without a value are last.
 * @template T
 * @param {Column<T>[]} columns
 * @param {T[]} rows
 * @param {string} order
 */
export function ordered(columns, rows, order) {
  const down = order.startsWith('-');
  const column = columns.find(it => it.sort === order.slice(down ? 1 : 0));
  if (!order || !column) return rows;
  const by = column.by ?? ((/** @type {any} */ it) => it[column.sort ?? '']);
  const compare = (/** @type {any} */ a, /** @type {any} */ b) =>
    (typeof a === 'string' && typeof b === 'string' ? a.localeCompare(b, undefined, { numeric: true }) : a < b ? -1 : a > b ? 1 : 0);
  const isNone = (/** @type {any} */ it) => it === null || it === undefined || it === '';
  return rows.map(row => ({ row, value: by(row) })).sort(({ value: a }, { value: b }) => {
    if (isNone(a) || isNone(b)) return Number(isNone(a)) - Number(isNone(b));
    return down ? compare(b, a) : compare(a, b);
  }).map(it => it.row);
}

/**
 * A table that is sorted by a click on the head of a column, or by a select on a phone. The order is
 * in the address, so that links and refreshes keep it.
 * @template T
 * @param {import('./console.js').Place} place
 * @param {string} caption
 * @param {Column<T>[]} columns
 * @param {T[]} rows in the order that holds when none is chosen
 * @param {Children} [none]
 * @param {string} [key] of the address, where a page has several such tables
 * @returns {HTMLElement}
 */
export function sortable(place, caption, columns, rows, none, key = 'sort') {
  if (!rows.length) return h('p', { class: 'none' }, none);
  const whole = h('div', { class: 'sortable' });
  const draw = () => {
    const order = place.query.get(key) ?? '';
    const to = (/** @type {string} */ wanted) => {
      place.keep({ [key]: wanted });
      draw();
    };
    const heads = columns.map(column => {
      const { sort, title, end } = column;
      if (!sort) return h('th', { scope: 'col', class: end ? 'end' : undefined }, title);
      const is = order === sort ? 'ascending' : order === `-${sort}` ? 'descending' : null;
      // Numbers begin with the largest, names with the first; a third click restores the usual order.
      const turns = end ? [`-${sort}`, sort, ''] : [sort, `-${sort}`, ''];
      const next = is ? turns[turns.indexOf(order) + 1] : turns[0];
      const press = h('button', { type: 'button', class: 'sort', 'data-sort': sort }, title);
      press.addEventListener('click', () => {
        to(next);
        /** @type {HTMLElement | null} */ (whole.querySelector(`button[data-sort="${sort}"]`))?.focus();
      });
      return h('th', { scope: 'col', class: end ? 'end' : undefined, 'aria-sort': is ?? undefined }, press);
    });
    const choices = columns.filter(it => it.sort).flatMap(it => [[`${it.sort}`, `${it.title} ↑`], [`-${it.sort}`, `${it.title} ↓`]]);
    const select = h('select', {}, [['', '–'], ...choices].map(([value, label]) =>
      h('option', { value, selected: value === order }, label)));
    select.addEventListener('change', () => {
      to(select.value);
      whole.querySelector('select')?.focus();
    });
    set(whole, h('label', { class: 'sorts' }, h('span', { class: 'quiet' }, t('Sort by')), select),
      grid(caption, columns, ordered(columns, rows, order), heads, false));
  };
  draw();
  return whole;
}

/** Times between two refreshes, seconds. */
const EVERY_S = ['2', '5', '30'];

/**
 * A button that refreshes a list, and a select for automatic refresh, which is in the address. A list
 * that has the focus or is in the background is not refreshed automatically.
 * @param {import('./console.js').Place} place
 * @param {Element} list
 * @param {() => Promise<any>} look
 * @param {string} [usual] seconds between two refreshes unless others are chosen
 */
export function refresher(place, list, look, usual = '') {
  let timer = 0;
  const isFree = () => document.visibilityState !== 'hidden' && !document.querySelector('dialog[open]')
    && !list.contains(document.activeElement) && !list.hasAttribute('aria-busy');
  const choice = h('select', { class: 'small', 'aria-label': t('Refresh automatically') },
    h('option', { value: usual ? 'never' : '' }, t('Auto-refresh off')), EVERY_S.map(it => h('option', { value: it }, t('Refresh every {time}', { time: unit(it, t('s')) }))));
  choice.value = [...EVERY_S, 'never'].find(it => it === place.query.get('every')) ?? usual;
  if (choice.selectedIndex < 0) choice.selectedIndex = 0;
  const begin = () => {
    clearInterval(timer);
    if (Number(choice.value)) timer = window.setInterval(() => isFree() && look(), Number(choice.value) * 1_000);
  };
  choice.addEventListener('change', () => {
    place.keep({ every: choice.value === usual ? '' : choice.value });
    begin();
  });
  place.gone.addEventListener('abort', () => clearInterval(timer));
  begin();
  return h('div', { class: 'tools' }, button(t('Refresh'), look, { class: 'second small' }), choice);
}

/** Names and values. @param {[string, Children][]} pairs */
export const pairs = pairs =>
  h('dl', { class: 'pairs' }, pairs.map(([term, value]) => h('div', {}, h('dt', {}, term), h('dd', {}, value))));

/** A card with buttons beside its title. @param {Children} title @param {Element} tools @param {Children[]} children */
export const toolCard = (title, tools, ...children) =>
  h('section', { class: 'card' }, h('div', { class: 'head' }, h('h2', {}, title), tools), ...children);

/** @param {string} title @param {Children[]} children */
export const card = (title, ...children) => h('section', { class: 'card' }, h('h2', {}, title), ...children);

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
 * A button for an action: disabled until the action ends; an error becomes a notice.
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
 * A dialog to confirm an action that cannot be undone.
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
 * Loads a part of a page: busy meanwhile. An error is shown at the field of the page's search that it
 * names, otherwise in place of that part.
 * @param {Element} place
 * @param {() => Promise<Children>} load
 */
export async function loaded(place, load) {
  place.setAttribute('aria-busy', 'true');
  try {
    set(place, await load());
  } catch (error) {
    if (error instanceof DOMException) return;
    const form = document.querySelector('#page form[role="search"]');
    if (form && blame(form, error)) set(place, h('p', { class: 'none' }, t('The search is invalid.')));
    else set(place, h('p', { class: 'fault', role: 'alert' }, why(error)));
  } finally {
    place.removeAttribute('aria-busy');
  }
}

/** Has a text in the clipboard. @param {string} text */
export const copy = text => button(t('Copy'), async () => {
  await navigator.clipboard.writeText(text);
  notice(t('Copied.'));
}, { class: 'second small' });
