// The newest warnings and errors of the server's log.

import { ask } from './api.js';
import { h, put } from './dom.js';
import { choice, search, text } from './forms.js';
import { badge, loaded, name, refresher, sortable, toolCard, when } from './show.js';
import { meanings } from './reasons.js';
import { t } from './texts.js';

/** @param {import('./console.js').Place} place */
function show(place) {
  const level = place.query.get('level');
  const sought = (place.query.get('with') ?? '').toLowerCase();
  const list = h('div');
  const look = () => loaded(list, async () => {
    const [{ lines }, { events }] = await Promise.all([ask('GET', 'v1/log', undefined, place.gone), meanings()]);
    const wanted = lines.filter((/** @type {any} */ it) =>
      (!level || it.level === level) && (!sought || `${it.event ?? ''} ${it.text}`.toLowerCase().includes(sought)));
    return sortable(place, t('Log lines, newest first'), [
      { title: t('Time'), sort: 'at_ms', head: true, cell: it => when(it.at_ms) },
      { title: t('Level'), sort: 'level', cell: it => badge(it.level, it.level === 'error' ? 'bad' : 'warn') },
      { title: t('Event'), sort: 'event', cell: it => h('span', { class: 'mono' }, it.event ?? '') },
      { title: t('Message'), cell: it => [name(it.text), it.event && h('p', { class: 'quiet' }, events[it.event])] },
    ], wanted.reverse().slice(0, 500), sought || level ? t('No matches.') : t('No warnings or errors since the server started.'));
  });
  put(place.root, search(place, [
    [t('Level'), choice('level', [['', t('Warnings and errors')], ['error', t('Errors')], ['warn', t('Warnings')]]), t('The severity of the log lines. Default: both.')],
    [t('Contains'), text('with'), t('Text in the message or the name of the event, in upper or lower case.')],
  ]), toolCard(t('Newest first'), refresher(place, list, look, '5'), list));
  look();
}

export const page = { title: t('Log'), scopes: ['read'], lead: t('The latest warnings and errors, from memory. The complete log goes to standard error.'), show };
