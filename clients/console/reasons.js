// Why connections ended, why messages were not delivered, and all counters, with what they mean.

import { ask } from './api.js';
import { h, put, set } from './dom.js';
import { card, number, table } from './show.js';
import { search, text } from './clients.js';

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
 * A table of counts, drawn anew when a figure changes.
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
  put(place.root, search(place, [['With the text', text('with')]]), card(title, list));
  meanings().then(({ [of]: meaning }) => {
    let shown = '';
    place.live(({ status }) => {
      const now = JSON.stringify(status[of]);
      if (now === shown || place.gone.aborted) return;
      shown = now;
      const rows = /** @type {[string, number][]} */ (Object.entries(status[of])).filter(([key, count]) =>
        (all || count > 0 || sought) && (!sought || `${key} ${meaning[key]}`.toLowerCase().includes(sought)));
      rows.forEach(([key, count]) => first.has(key) || first.set(key, count));
      rows.sort(([a, m], [b, n]) => (isSorted ? n - m : 0) || a.localeCompare(b));
      set(list, table(title, [
        { title: of === 'counters' ? 'Counter' : 'Reason', head: true, cell: ([key]) => h('span', { class: 'mono' }, key) },
        { title: 'What it means', cell: ([key]) => meaning[key] },
        { title: 'Since you look', end: true, cell: ([key, count]) => (count > first.get(key) ? `+${number(count - first.get(key))}` : '') },
        { title: 'Since the start', end: true, cell: ([, count]) => number(count) },
      ], rows, sought ? 'None is like that.' : 'None since the start.'));
    });
  });
}

export const closes = { title: 'Why connections end', scopes: ['metrics'],
  lead: 'Every connection that ended, by reason. A search finds also what has not happened yet.',
  show: (/** @type {Place} */ place) => counts(place, 'closed', 'Connections that ended', true) };
export const drops = { title: 'Why messages are lost', scopes: ['metrics'],
  lead: 'Messages that were not delivered to a session, by reason.',
  show: (/** @type {Place} */ place) => counts(place, 'dropped', 'Messages not delivered', true) };
export const counters = { title: 'Counters', scopes: ['metrics'],
  lead: 'Everything that is counted, as in /metrics.',
  show: (/** @type {Place} */ place) => counts(place, 'counters', 'Counted since the start', false) };
