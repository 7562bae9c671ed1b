// A push to one device and its progress: submitted, accepted by the server, acknowledged by the
// device.

import { ask, follow, withQuery, why } from './api.js';
import { h, put, set } from './dom.js';
import { check, field, submits } from './forms.js';
import { badge, card, loaded, name, number, online, pairs, when } from './show.js';
import { parts, t } from './texts.js';
import { curl } from './topics.js';

/** Time that an answer waits for the device, milliseconds. */
const WAIT_MS = 10_000;

/** @param {string} word */
const outcome = word => badge(word, word === 'delivered' ? 'good' : word === 'stored' ? 'warn' : 'bad');

/** @param {import('./console.js').Place} place */
function show(place) {
  const product = h('input', { name: 'product', required: true, autocomplete: 'off', 'data-errors': 'unknown_product', value: place.query.get('product') ?? '' });
  const device = h('input', { name: 'device', required: true, autocomplete: 'off', 'data-errors': 'unknown_device', value: place.query.get('device') ?? '' });
  const body = h('textarea', { name: 'body', required: true, 'data-errors': 'too_large' });
  const ttl = h('input', { name: 'ttl_s', type: 'number', min: 0, max: 31_536_000, value: 86_400, required: true });
  const urgent = h('input', { type: 'checkbox', name: 'priority' });
  const [steps, state, code] = [h('ol', { class: 'steps', role: 'log', 'aria-label': t('Progress') }), h('div'), h('div')];
  /** @type {string | null} */
  let sent = null;
  /** @type {any[]} */
  let early = [];
  let began = 0;
  const step = (/** @type {any[]} */ ...told) => put(steps, h('li', {},
    h('time', { class: 'mono' }, `+${number(Math.round(performance.now() - began))} ms`), h('span', {}, ...told)));
  const told = (/** @type {any} */ event) => {
    if (event.type === 'pushed' && event.push === sent) {
      step(name(event.device), ': ', outcome(event.outcome), event.reason ? ` ${event.reason}` : '', ' ',
        h('span', { class: 'quiet' }, parts('(event {event})', { event: h('code', {}, 'pushed') })));
    }
  };
  if (place.may('read')) {
    const end = follow(() => 'v1/events?type=pushed,online,offline', {
      // The event may arrive before the answer that names the push.
      pushed: event => (sent === '' ? early.push(event) : told(event)),
      online: event => began && event.device === device.value && step(parts('{device} connected', { device: name(event.device) })),
      offline: event => began && event.device === device.value && step(parts('{device} disconnected ({reason})', { device: name(event.device), reason: event.reason })),
    });
    place.gone.addEventListener('abort', end);
  }
  const look = () => place.may('read') && loaded(state, async () => {
    const it = await ask('GET', withQuery('v1/device', { product: product.value, device: device.value }), undefined, place.gone);
    return pairs([[t('Device'), online(it.online)], [t('Since'), when(it.since_ms)],
      [t('Queued pushes'), number(it.waiting)], [t('In flight'), number(it.inflight)]]);
  });
  const none = h('p', { class: 'none' }, t('No push sent from this page yet.'));
  const send = h('button', { type: 'submit' }, t('Push'));
  const form = h('form', { class: 'grid' }, h('div', { class: 'cards' }, field(t('Product'), product, t('The exact name of the product.')),
    field(t('Device'), device, t('The ID of the device within the product.'))),
  field(t('Body'), body, t('The content, as text: at least one byte, at most [limits] push_bytes_max (4,096 by default).')),
  h('div', { class: 'cards' }, field(t('Time to live (seconds)'), ttl, t('How long the server stores the push for an offline device: 0 to 31,536,000 seconds, and no longer than the product permits. 0: only if the device is online. Default: 86,400 (a day).')),
    check(t('High priority'), urgent, t('Sent before normal pushes of the device that were not sent yet. Default: off.'))), h('div', { class: 'row' }, send));
  submits(form, async () => {
    [began, sent, early] = [performance.now(), '', []];
    set(steps);
    none.remove();
    const order = { product: product.value, device: device.value, body: body.value, ttl_s: Number(ttl.value),
      priority: urgent.checked ? 'high' : 'normal', receipts: true, wait_ms: WAIT_MS };
    set(code, curl('v1/pushes', order));
    step(t('Sent to the server. Waiting up to 10 s for the device.'));
    try {
      const answer = await ask('POST', 'v1/pushes', order, place.gone);
      sent = answer.id;
      const [first] = answer.outcomes;
      step(parts('Push {id}:', { id: h('span', { class: 'mono' }, answer.id) }), ' ', outcome(first.outcome), first.reason ? ` ${first.reason}` : '',
        first.outcome === 'stored' ? ` – ${t('queued until the device connects; the delivery will be shown here.')}` : '');
      early.forEach(told);
    } catch (error) {
      step(h('span', { class: 'fault' }, why(error)));
      throw error;
    } finally {
      look();
    }
  });
  put(place.root, card(t('Push to a device'), form, code), card(t('Progress'), none, steps, state));
  if (product.value && device.value) look();
}

export const page = { title: t('Push'), scopes: ['push'], lead: t('Send a push to one device and watch its delivery.'), show };
