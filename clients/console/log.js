// The newest warnings and errors of the server's log.

import { ask } from './api.js';
import { h, put } from './dom.js';
import { badge, button, card, loaded, moment, name, table } from './show.js';
import { choice, search, text } from './clients.js';
import { meanings } from './reasons.js';

/** Time between two looks, milliseconds. */
const LOOK_MS = 5_000;

/** @param {import('./console.js').Place} place */
function show(place) {
  const level = place.query.get('level');
  const sought = (place.query.get('with') ?? '').toLowerCase();
  const list = h('div');
  let seen = -1;
  const look = (/** @type {boolean} */ again) => loaded(list, async () => {
    const [{ lines }, { events }] = await Promise.all([ask('GET', 'v1/log', undefined, place.gone), meanings()]);
    const newest = lines[lines.length - 1]?.number ?? 0;
    if (again && newest === seen) throw new DOMException('nothing new', 'AbortError');
    seen = newest;
    const wanted = lines.filter((/** @type {any} */ it) =>
      (!level || it.level === level) && (!sought || `${it.event ?? ''} ${it.text}`.toLowerCase().includes(sought)));
    return table('Lines of the log, newest first', [
      { title: 'At', head: true, cell: it => h('span', { class: 'mono' }, moment(it.at_ms)) },
      { title: 'Level', cell: it => badge(it.level, it.level === 'error' ? 'bad' : 'warn') },
      { title: 'Event', cell: it => h('span', { class: 'mono' }, it.event ?? '') },
      { title: 'Line', cell: it => [name(it.text), it.event && h('p', { class: 'quiet' }, events[it.event])] },
    ], wanted.reverse().slice(0, 500), sought || level ? 'None is like that.' : 'None: the server has complained of nothing since it started.');
  });
  put(place.root, search(place, [
    ['Level', choice('level', [['', 'Warnings and errors'], ['error', 'Errors'], ['warn', 'Warnings']])], ['With the text', text('with')],
  ]), card('Newest first', list, h('div', { class: 'row' }, button('Look again', () => look(false), { class: 'second' }))));
  look(false);
  const timer = setInterval(() => document.visibilityState !== 'hidden' && look(true), LOOK_MS);
  place.gone.addEventListener('abort', () => clearInterval(timer));
}

export const page = { title: 'Log', scopes: ['read'], lead: 'Warnings and errors that the server keeps in memory. All of the log goes to standard error.', show };
