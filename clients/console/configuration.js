// The running configuration: every key with its value, default, range and meaning, and the changes
// that a reload would apply.

import { ask } from './api.js';
import { h, put, set } from './dom.js';
import { choice, search, text } from './forms.js';
import { badge, card, loaded, table } from './show.js';
import { parts, t } from './texts.js';

/** @param {any} it */
const setting = it => h('div', { class: `setting ${it.is_default ? '' : 'changed'}` },
  h('div', { class: 'row' }, h('code', {}, `${it.name} = ${it.value}`),
    !it.is_default && it.default !== null && h('small', {}, t('default'), ' ', h('code', {}, it.default)),
    it.default === null && h('small', {}, t('no default')),
    badge(it.live ? t('reload') : t('restart'), it.live ? 'good' : 'off')),
  h('p', {}, it.text, ' ', t('Allowed: {range}.', { range: it.allowed })));

/** @param {import('./console.js').Place} place */
function show(place) {
  const sought = (place.query.get('with') ?? '').toLowerCase();
  const only = place.query.get('only') ?? '';
  const [changes, list] = [h('div'), h('div', { class: 'cards-list' })];
  put(place.root, card(t('Changes that a reload would apply'), changes), search(place, [
    [t('Contains'), text('with'), t('Text in the section, key, value or description, in upper or lower case.')], [t('Show'), choice('only', [['', t('All keys')], ['changed', t('Changed from the default')], ['live', t('Applied by a reload')]]), t('Which keys are listed. Default: all.')],
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
    return sections.length ? h('div', { id: 'page-sections', class: 'sections' }, sections) : h('p', { class: 'none' }, t('No matches.'));
  });
}

/** @param {Element} place @param {any} told */
function pending(place, { changes, problem }) {
  if (problem) return set(place, h('p', { class: 'fault' }, t('The configuration file is invalid:')), h('pre', {}, problem));
  if (changes === null) return set(place, h('p', { class: 'quiet' }, t('This server cannot reload its configuration.')));
  set(place, table(t('Changes'), [
    { title: t('Key'), head: true, cell: it => h('code', {}, it.key) },
    { title: t('Current value'), cell: it => h('code', {}, it.old) },
    { title: t('Value in the file'), cell: it => h('code', {}, it.new) },
    { title: t('Applied by'), cell: it => badge(it.live ? t('reload') : t('restart'), it.live ? 'good' : 'warn') },
  ], changes, t('None: the file and the environment match the running configuration.')),
  changes.some((/** @type {any} */ it) => it.live) && h('p', { class: 'quiet' }, parts('Reload with {systemctl} or {kill}.', { systemctl: h('code', {}, 'systemctl reload holdline'), kill: h('code', {}, 'kill -HUP') })));
}

export const page = { title: t('Configuration'), scopes: ['manage', 'view'], lead: t('The running configuration, from the file, the environment and the defaults. Secrets are hidden.'), show };
