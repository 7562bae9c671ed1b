// Disconnect reasons, reasons of dropped messages, and all counters, with their meanings.

import { ask } from './api.js';
import { h, put, set } from './dom.js';
import { search, text } from './forms.js';
import { card, number, sortable } from './show.js';
import { meaning, t } from './texts.js';

/** @typedef {import('./console.js').Place} Place */

/** What names mean; it does not change while the server runs. @type {Promise<any> | null} */
let known = null;

/** What names of reasons, counters and events mean. */
export function meanings() {
  known ??= ask('GET', 'v1/meanings').catch(error => {
    known = null;
    throw error;
  });
  return known;
}

/**
 * A table of counts, redrawn when a figure changes.
 * @param {Place} place
 * @param {'closed' | 'dropped' | 'counters'} of
 * @param {string} title
 * @param {boolean} isSorted by how often; else by name
 */
function counts(place, of, title, isSorted) {
  const list = h('div');
  const sought = (place.query.get('with') ?? '').toLowerCase();
  const all = place.query.get('all') === 'yes' || of === 'counters';
  const first = new Map();
  put(place.root, search(place, [[t('Contains'), text('with'), t('Text in the name or the meaning, in upper or lower case.')]]), card(title, list));
  meanings().then(({ [of]: told }) => {
    const means = (/** @type {string} */ key) => meaning(of, key, told[key]);
    let shown = '';
    place.live(({ status }) => {
      const now = JSON.stringify(status[of]);
      if (now === shown || place.gone.aborted) return;
      shown = now;
      const rows = /** @type {[string, number][]} */ (Object.entries(status[of])).filter(([key, count]) =>
        (all || count > 0 || sought) && (!sought || `${key} ${means(key)}`.toLowerCase().includes(sought)));
      rows.forEach(([key, count]) => first.has(key) || first.set(key, count));
      rows.sort(([a, m], [b, n]) => (isSorted ? n - m : 0) || a.localeCompare(b));
      const focused = list.contains(document.activeElement) && /** @type {HTMLElement} */ (document.activeElement).dataset.sort;
      set(list, sortable(place, title, [
        { title: of === 'counters' ? t('Counter') : t('Reason'), sort: 'key', by: ([key]) => key, head: true, cell: ([key]) => h('span', { class: 'mono' }, key) },
        { title: t('Meaning'), cell: ([key]) => means(key) },
        { title: t('Since this page opened'), sort: 'new', by: ([key, count]) => count - first.get(key), end: true, cell: ([key, count]) => (count > first.get(key) ? `+${number(count - first.get(key))}` : '') },
        { title: t('Since the server started'), sort: 'count', by: ([, count]) => count, end: true, cell: ([, count]) => number(count) },
      ], rows, sought ? t('No matches.') : t('None since the server started.')));
      // A figure changed while the keyboard was in the heads.
      if (focused) /** @type {HTMLElement | null} */ (list.querySelector(`button[data-sort="${focused}"]`))?.focus();
    });
  });
}

export const closes = { title: t('Disconnect reasons'), scopes: ['metrics'],
  lead: t('Connections that ended, by reason. A search also lists reasons that have not occurred.'),
  show: (/** @type {Place} */ place) => counts(place, 'closed', t('Disconnections by reason'), true) };
export const drops = { title: t('Dropped messages'), scopes: ['metrics'],
  lead: t('Messages that were not delivered to a session, by reason.'),
  show: (/** @type {Place} */ place) => counts(place, 'dropped', t('Dropped messages by reason'), true) };
export const counters = { title: t('Counters'), scopes: ['metrics'],
  lead: t('Every counter of /metrics.'),
  show: (/** @type {Place} */ place) => counts(place, 'counters', t('Counters since the server started'), false) };
