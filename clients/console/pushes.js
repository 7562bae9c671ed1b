// Pushes that are remembered: those to many devices, scheduled or tracked, with their counts; buttons
// that pause, resume and stop one; the outcomes of a tracked one at each device.

import { ask, withQuery } from './api.js';
import { h, put } from './dom.js';
import { pages } from './clients.js';
import { badge, button, card, loaded, moment, name, notice, number, pairs, refresher, sure, table, toolCard } from './show.js';
import { parts, t } from './texts.js';

/** @typedef {import('./console.js').Place} Place */

/** How states look. @type {Record<string, 'off' | 'good' | 'bad' | 'warn'>} */
const LOOKS = { scheduled: 'warn', paused: 'warn', running: 'good', finished: 'off', cancelled: 'bad' };

/** Outcomes of a push at a device, with their labels. */
const STEPS = [['stored', t('Queued')], ['delivered', t('Acknowledged')], ['expired', t('Expired')], ['rejected', t('Rejected')],
  ['cancelled', t('Recalled')], ['opened', t('Opened')], ['dismissed', t('Dismissed')]];

/** How these look. @type {Record<string, 'off' | 'good' | 'bad' | 'warn'>} */
const STEP_LOOKS = { stored: 'warn', delivered: 'good', opened: 'good', dismissed: 'off', cancelled: 'off' };

/** When a push was accepted, or is to be sent, Unix milliseconds: its id tells it. @param {string} id */
const timeOf = id => Number(BigInt(id) >> 22n) + Date.UTC(2020, 0, 1);

/** Whether there is something to stop or to recall. @param {any} it */
const goesOn = it => ['scheduled', 'paused', 'running'].includes(it.state) || it.counts.pending + it.counts.stored > 0;

/** A bar: so many of all devices. @param {string} label @param {number} count @param {number} all */
const bar = (label, count, all) => h('progress', { class: 'part', max: Math.max(all, 1), value: count, 'aria-label': label });

/** @param {any} it */
const link = it => h('a', { class: 'mono', href: `#/pushes?push=${it.id}` }, it.id);

/** The buttons of a push: pause or resume, and stop. @param {Place} place @param {any} it @param {(did: string) => void} done */
function buttons(place, it, done) {
  if (!place.may('push')) return null;
  const product = it.product ?? undefined;
  const isOpen = ['scheduled', 'paused', 'running'].includes(it.state);
  const [word, told, act] = it.state === 'paused'
    ? [t('Resume'), t('Resume push {id}', { id: it.id }), 'resume'] : [t('Pause'), t('Pause push {id}', { id: it.id }), 'pause'];
  return h('div', { class: 'row end' }, isOpen && button(word, async () => {
    await ask('POST', withQuery(`v1/pushes/${it.id}/${act}`, { product }));
    done(act);
  }, { class: 'second small', 'aria-label': told }), goesOn(it) && button(t('Stop'), async () => {
    if (!await sure(t('Stop push {id}?', { id: it.id }), t('Stop'), t('No further device gets it, and it is recalled from all devices that have not acknowledged it.'))) return;
    const { counts } = await ask('DELETE', withQuery(`v1/pushes/${it.id}`, { product }));
    notice(t('Push {id} is stopped. Recalled from {count} devices.', { id: it.id, count: number(counts.cancelled) }));
    done('stopped');
  }, { class: 'second small', 'aria-label': t('Stop push {id}', { id: it.id }) }));
}

/** @param {Place} place */
function list(place) {
  const state = place.query.get('state') ?? '';
  const tab = (/** @type {string} */ to, /** @type {string} */ label) =>
    h('a', { href: to ? `#/pushes?state=${to}` : '#/pushes', 'aria-current': state === to ? 'true' : undefined }, label);
  put(place.root, h('nav', { class: 'tabs', 'aria-label': t('State') }, tab('', t('All')), tab('scheduled', t('Scheduled')),
    tab('running', t('Running')), tab('paused', t('Paused')), tab('finished', t('Finished')), tab('cancelled', t('Stopped'))));
  pages(place, t('Pushes that are remembered'), async after => {
    const { pushes, next } = await ask('GET', withQuery('v1/pushes', { after, state: state || null, limit: 100 }), undefined, place.gone);
    return { rows: pushes, next };
  }, rows => table(t('Pushes that are remembered'), [
    { title: t('Push'), head: true, cell: it => link(it) },
    { title: t('Product'), cell: it => (it.product ? name(it.product) : '–') },
    { title: t('State'), cell: it => badge(it.state, LOOKS[it.state]) },
    { title: t('Sent at'), cell: it => moment(timeOf(it.id)) },
    { title: t('Devices'), end: true, cell: it => number(it.counts.matched) },
    { title: t('Acknowledged'), end: true, cell: it => [bar(t('Acknowledged'), it.counts.delivered, it.counts.matched), ' ', number(it.counts.delivered)] },
    { title: t('Queued'), end: true, cell: it => number(it.counts.pending + it.counts.stored) },
    { title: t('Expired or rejected'), end: true, cell: it => number(it.counts.expired + it.counts.rejected) },
    { title: t('Recalled'), end: true, cell: it => number(it.counts.cancelled) },
    { title: t('Opened'), end: true, cell: it => (it.tracked ? number(it.counts.opened) : '–') },
    { title: '', end: true, cell: it => buttons(place, it, did => place.go({ ...(state && { state }), [did]: it.id })) },
  ], rows, t('No pushes to a tag or a product, and none is scheduled or tracked.')));
}

/** Counts with bars. @param {any} it */
function counts(it) {
  const columns = [['pending', t('Sent, not acknowledged')], ...STEPS];
  const shown = it.tracked ? columns : columns.filter(([key]) => key !== 'opened' && key !== 'dismissed');
  return table(t('Counts'), [
    { title: t('Outcome'), head: true, cell: ([, label]) => label },
    { title: t('Devices'), end: true, cell: ([key]) => number(it.counts[key]) },
    { title: t('Of all'), cell: ([key, label]) => bar(label, it.counts[key], it.counts.matched) },
  ], shown, undefined, true);
}

/** @param {Place} place @param {string} id */
function one(place, id) {
  const [state, minutes] = [h('div'), h('div')];
  const look = () => loaded(state, async () => {
    const it = { product: null, .../** @type {any} */ (await ask('GET', `v1/pushes/${id}`, undefined, place.gone)) };
    return [pairs([[t('State'), badge(it.state, LOOKS[it.state])], [t('Sent at'), moment(timeOf(id))],
      [t('Devices'), number(it.counts.matched)], [t('Tracked'), it.tracked ? t('yes') : t('no')]]), counts(it),
    buttons(place, it, look)];
  });
  put(place.root, h('p', {}, h('a', { href: '#/pushes' }, t('← All pushes'))),
    toolCard(parts('Push {id}', { id: h('span', { class: 'mono' }, id) }), refresher(place, state, look), state));
  look().then(() => {
    if (!state.querySelector('table') || place.gone.aborted) return;
    devices(place, id);
    put(place.root, card(t('By minute'), minutes));
    loaded(minutes, async () => {
      const answer = /** @type {any} */ (await ask('GET', `v1/pushes/${id}/minutes`, undefined, place.gone));
      return table(t('By minute'), [{ title: t('Minute'), head: true, cell: it => moment(it.at_ms).slice(0, 16) },
        ...STEPS.map(([key, label]) => ({ title: label, end: true, cell: (/** @type {any} */ it) => number(it[key]) }))],
      answer.minutes.slice().reverse(), t('Nothing yet.'));
    });
  });
}

/** Outcomes of a push at its devices. @param {Place} place @param {string} id */
function devices(place, id) {
  const outcome = place.query.get('outcome') ?? '';
  const select = h('select', { id: 'outcome', 'aria-label': t('Outcome') },
    [['', t('All outcomes')], ...STEPS].map(([value, label]) => h('option', { value, selected: value === outcome }, label)));
  select.addEventListener('change', () => place.go({ push: id, ...(select.value && { outcome: select.value }) }));
  put(place.root, h('div', { class: 'row' }, select));
  pages(place, t('Devices'), async after => {
    const page = /** @type {any} */ (await ask('GET', withQuery(`v1/pushes/${id}/devices`,
      { after, outcome: outcome || null, limit: 100 }), undefined, place.gone));
    return { rows: page.devices, next: page.more ? page.next : null };
  }, rows => table(t('Devices'), [
    { title: t('Device'), head: true, cell: it => name(it.device) },
    { title: t('Outcome'), cell: it => [badge(it.outcome, STEP_LOOKS[it.outcome] ?? 'bad'), it.reason ? ` ${it.reason}` : ''] },
    { title: t('At'), cell: it => moment(it.at_ms) },
  ], rows, t('No device yet.')));
}

/** @param {Place} place */
function show(place) {
  const id = place.query.get('push');
  if (id !== null && /^[0-9]{1,20}$/.test(id)) one(place, id);
  else list(place);
}

export const page = { title: t('Pushes'), scopes: ['read', 'push'], lead: t('Pushes to many devices, scheduled and tracked ones: their progress, and their outcomes at each device.'), show };
