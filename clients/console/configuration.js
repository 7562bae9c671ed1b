// The running configuration: every key with its value, default, range and meaning, the changes that
// a reload would apply, and the buttons that check and reload the file.

import { ask } from './api.js';
import { h, put, set } from './dom.js';
import { choice, search, text } from './forms.js';
import { badge, button, card, loaded, notice, number, sure, table } from './show.js';
import { parts, t } from './texts.js';

/** @typedef {import('./console.js').Place} Place */

/** @param {any} it */
const setting = it => h('div', { class: `setting ${it.is_default ? '' : 'changed'}` },
  h('div', { class: 'row' }, h('code', {}, `${it.name} = ${it.value}`),
    !it.is_default && it.default !== null && h('small', {}, t('default'), ' ', h('code', {}, it.default)),
    it.default === null && h('small', {}, t('no default')),
    badge(it.live ? t('reload') : t('restart'), it.live ? 'good' : 'off')),
  h('p', {}, it.text, ' ', t('Allowed: {range}.', { range: it.allowed })));

/** @param {Place} place */
function show(place) {
  const sought = (place.query.get('with') ?? '').toLowerCase();
  const only = place.query.get('only') ?? '';
  const [changes, list] = [h('div'), h('div', { class: 'cards-list' })];
  const orders = place.may('admin') && reload(place);
  put(place.root, card(t('Changes that a reload would apply'), changes, orders), search(place, [
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

/**
 * Buttons that check the file as a reload would read it, and that reload it, with what they found.
 * @param {Place} place
 */
function reload(place) {
  const found = h('div', { role: 'status' });
  const check = button(t('Check'), async () => {
    const { problems, warnings } = await ask('POST', 'v1/configuration/preview', undefined, place.gone);
    set(found, told(t('Problems; a reload would be refused or incomplete:'), problems, 'fault'),
      told(t('Warnings:'), warnings, 'quiet'), !problems.length && !warnings.length && h('p', { class: 'quiet' }, t('No problems and no warnings.')));
  }, { class: 'second' });
  const act = button(t('Reload'), async () => {
    if (!await sure(t('Reload the configuration?'), t('Reload'), t('Connections stay open. Keys that need a restart keep their values.'))) return;
    const { applied, failed, warnings } = await ask('POST', 'v1/configuration/reload');
    notice(t('Reloaded. Keys changed: {count}.', { count: number(applied.length) }));
    const failures = failed.map((/** @type {any} */ it) => `${it.what}: ${it.error}`);
    set(found, told(t('Failed; the old values stay in use:'), failures, 'fault'), told(t('Warnings:'), warnings, 'quiet'));
    if (!failures.length && !warnings.length) place.go({ reloaded: String(Date.now()) });
  });
  return [h('div', { class: 'row' }, check, act), found];
}

/** Sentences below a title; nothing if there are none. @param {string} title @param {string[]} sentences @param {string} kind */
const told = (title, sentences, kind) => sentences.length > 0
  && h('div', { class: kind }, h('p', {}, title), h('ul', {}, sentences.map(it => h('li', {}, it))));

export const page = { title: t('Configuration'), scopes: ['manage', 'view'], lead: t('The running configuration, from the file, the environment and the defaults. Secrets are hidden.'), show };
