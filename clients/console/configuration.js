// The configuration in force: every key with its value, default, range and meaning, and what reading
// the file again would change.

import { ask } from './api.js';
import { h, put, set } from './dom.js';
import { badge, card, loaded, table } from './show.js';
import { choice, search, text } from './clients.js';

/** @param {any} it */
const setting = it => h('div', { class: `setting ${it.is_default ? '' : 'changed'}` },
  h('div', { class: 'row' }, h('code', {}, `${it.name} = ${it.value}`),
    !it.is_default && it.default !== null && h('small', {}, 'default ', h('code', {}, it.default)),
    it.default === null && h('small', {}, 'has no default'),
    badge(it.live ? 'reload' : 'restart', it.live ? 'good' : 'off')),
  h('p', {}, `${it.text} Takes ${it.allowed}.`));

/** @param {import('./console.js').Place} place */
function show(place) {
  const sought = (place.query.get('with') ?? '').toLowerCase();
  const only = place.query.get('only') ?? '';
  const [changes, list] = [h('div'), h('div', { class: 'cards-list' })];
  put(place.root, card('What a reload would change', changes), search(place, [
    ['With the text', text('with')], ['Shown', choice('only', [['', 'All keys'], ['changed', 'Not at their default'], ['live', 'Followed by a reload']])],
  ]), list);
  loaded(list, async () => {
    const told = await ask('GET', 'v1/configuration', undefined, place.gone);
    pending(changes, told);
    const fits = (/** @type {string} */ header, /** @type {any} */ it) =>
      (only !== 'changed' || !it.is_default) && (only !== 'live' || it.live)
      && (!sought || `${header} ${it.name} ${it.text} ${it.value}`.toLowerCase().includes(sought));
    const sections = told.sections.map((/** @type {any} */ section) => {
      const settings = section.settings.filter((/** @type {any} */ it) => fits(section.header, it));
      if (!settings.length) return null;
      const inner = [h('p', { class: 'quiet' }, section.about), settings.map(setting)];
      const title = h('h2', {}, h('code', {}, section.header), ` ${settings.length}`);
      return h('details', { class: 'card', open: Boolean(sought || only) }, h('summary', {}, title), ...inner);
    }).filter(Boolean);
    return sections.length ? h('div', { id: 'page-sections', class: 'sections' }, sections) : h('p', { class: 'none' }, 'No key is like that.');
  });
}

/** @param {Element} place @param {any} told */
function pending(place, { changes, problem }) {
  if (problem) return set(place, h('p', { class: 'fault' }, 'The file is refused as it is now:'), h('pre', {}, problem));
  if (changes === null) return set(place, h('p', { class: 'quiet' }, 'This server cannot read its configuration again.'));
  set(place, table('Changes', [
    { title: 'Key', head: true, cell: it => h('code', {}, it.key) },
    { title: 'In force', cell: it => h('code', {}, it.old) },
    { title: 'In the file', cell: it => h('code', {}, it.new) },
    { title: 'Follows', cell: it => badge(it.live ? 'reload' : 'restart', it.live ? 'good' : 'warn') },
  ], changes, 'Nothing: what is in force is what the file and the environment say.'),
  changes.some((/** @type {any} */ it) => it.live) && h('p', { class: 'quiet' }, 'SIGHUP reads it again: ', h('code', {}, 'systemctl reload holdline'), ' or ', h('code', {}, 'kill -HUP'), '.'));
}

export const page = { title: 'Configuration', scopes: ['manage', 'view'], lead: 'What is in force, from the file, the environment and the defaults. Secrets are hidden.', show };
