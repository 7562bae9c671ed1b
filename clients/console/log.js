// The newest warnings and errors of the server's log.

import { ask } from './api.js';
import { h, put } from './dom.js';
import { badge, button, card, loaded, moment, name, table } from './show.js';
import { choice, search, text } from './clients.js';
import { meanings } from './reasons.js';
import { t } from './texts.js';

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
    return table(t('Log lines, newest first'), [
      { title: t('Time'), head: true, cell: it => h('span', { class: 'mono' }, moment(it.at_ms)) },
      { title: t('Level'), cell: it => badge(it.level, it.level === 'error' ? 'bad' : 'warn') },
      { title: t('Event'), cell: it => h('span', { class: 'mono' }, it.event ?? '') },
      { title: t('Message'), cell: it => [name(it.text), it.event && h('p', { class: 'quiet' }, events[it.event])] },
    ], wanted.reverse().slice(0, 500), sought || level ? t('No matches.') : t('No warnings or errors since the server started.'));
  });
  put(place.root, search(place, [
    [t('Level'), choice('level', [['', t('Warnings and errors')], ['error', t('Errors')], ['warn', t('Warnings')]])], [t('Contains'), text('with')],
  ]), card(t('Newest first'), list, h('div', { class: 'row' }, button(t('Refresh'), () => look(false), { class: 'second' }))));
  look(false);
  const timer = setInterval(() => document.visibilityState !== 'hidden' && look(true), LOOK_MS);
  place.gone.addEventListener('abort', () => clearInterval(timer));
}

export const page = { title: t('Log'), scopes: ['read'], lead: t('The latest warnings and errors, from memory. The complete log goes to standard error.'), show };
