// A push and its progress: submitted, accepted by the server, acknowledged by the device. Pushes to
// many that are scheduled, running or over, and a button that cancels one.

import { ask, follow, withQuery, why } from './api.js';
import { h, put, set } from './dom.js';
import { check, field, submits } from './forms.js';
import { pages } from './clients.js';
import { badge, button, card, loaded, moment, name, notice, number, online, pairs, sure, table, when } from './show.js';
import { parts, t } from './texts.js';
import { curl } from './topics.js';

/** Time that an answer waits for the device, milliseconds. */
const WAIT_MS = 10_000;

/** @param {string} word */
const outcome = word => badge(word, word === 'delivered' ? 'good' : word === 'stored' ? 'warn' : 'bad');

/** How states look. @type {Record<string, 'off' | 'good' | 'bad' | 'warn'>} */
const LOOKS = { scheduled: 'warn', paused: 'warn', running: 'good', finished: 'off', cancelled: 'bad' };

/** When a push was accepted, or is to be sent, Unix milliseconds: its id tells it. @param {string} id */
const timeOf = id => Number(BigInt(id) >> 22n) + Date.UTC(2020, 0, 1);

/** Whether there is something to stop or to recall. @param {any} it */
const goesOn = it => ['scheduled', 'paused', 'running'].includes(it.state) || it.counts.pending + it.counts.stored > 0;

/** The button that pauses a push or lets it go on. @param {import('./console.js').Place} place @param {any} it */
function pauses(place, it) {
  if (!['scheduled', 'paused', 'running'].includes(it.state)) return null;
  const [word, told, act] = it.state === 'paused'
    ? [t('Resume'), t('Resume push {id}', { id: it.id }), 'resume'] : [t('Pause'), t('Pause push {id}', { id: it.id }), 'pause'];
  return button(word, async () => {
    await ask('POST', withQuery(`v1/pushes/${it.id}/${act}`, { product: it.product }));
    place.go({ [act]: it.id });
  }, { class: 'second small', 'aria-label': told });
}

/** @param {import('./console.js').Place} place */
function list(place) {
  pages(place, t('Pushes to many devices'), async after => {
    const { pushes, next } = await ask('GET', withQuery('v1/pushes', { after, limit: 100 }), undefined, place.gone);
    return { rows: pushes, next };
  }, rows => table(t('Pushes to many devices'), [
    { title: t('Push'), head: true, cell: it => h('span', { class: 'mono' }, it.id) },
    { title: t('Product'), cell: it => (it.product ? name(it.product) : '–') },
    { title: t('State'), cell: it => badge(it.state, LOOKS[it.state]) },
    { title: t('Sent at'), cell: it => moment(timeOf(it.id)) },
    { title: t('Devices'), end: true, cell: it => number(it.counts.matched) },
    { title: t('Acknowledged'), end: true, cell: it => number(it.counts.delivered) },
    { title: t('Queued'), end: true, cell: it => number(it.counts.pending + it.counts.stored) },
    { title: t('Expired or rejected'), end: true, cell: it => number(it.counts.expired + it.counts.rejected) },
    { title: t('Recalled'), end: true, cell: it => number(it.counts.cancelled) },
    { title: '', end: true, cell: it => h('div', { class: 'row end' }, pauses(place, it), goesOn(it) && button(t('Stop'), async () => {
      if (!await sure(t('Stop push {id}?', { id: it.id }), t('Stop'), t('No further device gets it, and it is recalled from all devices that have not acknowledged it.'))) return;
      const { counts } = await ask('DELETE', withQuery(`v1/pushes/${it.id}`, { product: it.product }));
      notice(t('Push {id} is stopped. Recalled from {count} devices.', { id: it.id, count: number(counts.cancelled) }));
      place.go({ stopped: it.id });
    }, { class: 'second small', 'aria-label': t('Stop push {id}', { id: it.id }) })) },
  ], rows, t('No pushes to a tag or a product, and none is scheduled.')));
}

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
  list(place);
  if (product.value && device.value) look();
}

export const page = { title: t('Push'), scopes: ['push'], lead: t('Send a push to one device and watch its delivery; stop pushes to many devices.'), show };
