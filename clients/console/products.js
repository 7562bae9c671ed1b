// Products: how their devices log in and what the server stores for them; a form to create one.
// A secret is shown once, when it is created.

import { ask, exists } from './api.js';
import { h, put, set } from './dom.js';
import { Invalid, choice, field, submits } from './forms.js';
import { bytes, button, card, copy, duration, loaded, name, notice, number, pairs, refresher, sortable, sure, toolCard } from './show.js';
import { parts, t } from './texts.js';

/** @typedef {import('./console.js').Place} Place */

/** @param {string} key */
const path = key => `v1/products/${encodeURIComponent(key)}`;

/** Largest number of a product. */
const APP_ID_MAX = 4_294_967_295;

/** Ways in which devices prove who they are. @param {any} it */
const proofs = it => [it.hmac && t('secret (HMAC)'), it.challenge && t('challenge'), it.certificate && t('client certificate'),
  it.token && t('token'), it.classic_sign && t('signature of MIOP 5 and 6')].filter(Boolean).join(', ') || '–';

/** From where devices may log in without proof. @type {Record<string, string>} */
const ANONYMOUS = { nowhere: t('not allowed'), loopback: t('from this machine only'), everywhere: t('from everywhere') };

/** @param {Place} place */
function show(place) {
  const one = place.query.get('product');
  if (one !== null) return showOne(place, one);
  const list = h('div');
  const look = () => loaded(list, async () => {
    const { products } = await ask('GET', 'v1/products', undefined, place.gone);
    return sortable(place, t('Products'), [
      { title: t('Product'), sort: 'key', head: true, cell: it => h('a', { href: `#/products?product=${encodeURIComponent(it.key)}` }, name(it.key)) },
      { title: t('Number'), sort: 'app_id', end: true, cell: it => String(it.app_id) },
      { title: t('Login'), cell: proofs },
      { title: t('Login without proof'), sort: 'anonymous', cell: it => ANONYMOUS[it.anonymous] ?? it.anonymous },
      { title: t('Secrets'), sort: 'secrets', by: it => it.key_ids.length, end: true, cell: it => number(it.key_ids.length) },
      { title: t('Devices'), cell: it => h('a', { href: `#/devices?product=${encodeURIComponent(it.key)}` }, t('Devices')) },
    ], products, t('No products. Devices need one to connect.'));
  });
  put(place.root, toolCard(t('Products'), refresher(place, list, look), list));
  look();
  if (place.may('admin')) make(place);
}

/** A secret that was just made. @param {any} product */
const secret = product => [h('p', {}, t('Copy the secret now. It is not shown again.')),
  h('div', { class: 'row' }, h('code', { id: 'made-secret' }, product.generated_secret.hex), copy(product.generated_secret.hex),
    h('span', { class: 'quiet' }, t('key ID {id}', { id: product.generated_secret.key_id })))];

/** A form that creates a product. @param {Place} place */
function make(place) {
  const key = h('input', { name: 'product-key', required: true, maxlength: 32, autocomplete: 'off', pattern: '[A-Za-z0-9._\\-+:\\/=]+' });
  const app = h('input', { name: 'product-number', type: 'number', required: true, min: 1, max: APP_ID_MAX, autocomplete: 'off', 'data-errors': 'app_id' });
  const anonymous = choice('anonymous', Object.entries(ANONYMOUS));
  const count = h('input', { name: 'offline_count_max', type: 'number', required: true, min: 0, max: 10_000, value: 100, autocomplete: 'off' });
  const ttl = h('input', { name: 'ttl_max_s', type: 'number', required: true, min: 0, max: 31_536_000, value: 604_800, autocomplete: 'off' });
  const made = h('div', { role: 'status' });
  const form = h('form', { class: 'grid' }, h('div', { class: 'cards' },
    field(t('Name'), key, t('Devices and pushes use this name: 1 to 32 letters, digits and . _ - + : / =')),
    field(t('Number'), app, t('A number that no other product uses, 1 to 4,294,967,295. Records of MIOP 5 and 6 carry it.')),
    field(t('Login without proof'), anonymous, t('From where devices may log in without a proof of identity. Default: not allowed.')),
    field(t('Stored pushes per device'), count, t('Pushes stored for a device, 0 to 10,000. At the limit, an older one is replaced or the new one is refused. Default: 100.')),
    field(t('Longest time to live (seconds)'), ttl, t('How long a push may be stored, 0 to 31,536,000 seconds (a year). Longer times are capped. Default: 604,800 (a week).'))),
  h('div', { class: 'row' }, h('button', { type: 'submit' }, t('Create product'))), made);
  submits(form, async () => {
    // A form that creates must not change an existing product.
    if (await exists(path(key.value))) throw new Invalid(key, t('This product already exists.'));
    set(made, ...secret(await ask('PUT', path(key.value), {
      app_id: Number(app.value), anonymous: anonymous.value, offline_count_max: Number(count.value), ttl_max_s: Number(ttl.value), generate_secret: true,
    })));
    form.reset();
  });
  put(place.root, card(t('Create a product'), form,
    h('p', { class: 'quiet' }, t('All other settings have their defaults. The server makes a secret for the devices of the product.'))));
}

/** @param {Place} place @param {string} key */
function showOne(place, key) {
  const [state, made] = [h('div'), h('div', { role: 'status' })];
  const look = () => loaded(state, async () => {
    const it = await ask('GET', path(key), undefined, place.gone);
    const seconds = (/** @type {number} */ s) => duration(s * 1_000);
    return pairs([
      [t('Number'), String(it.app_id)], [t('Login'), proofs(it)], [t('Login without proof'), ANONYMOUS[it.anonymous] ?? it.anonymous],
      [t('Key IDs of the secrets'), it.key_ids.join(', ') || '–'],
      [t('Heartbeat, shortest'), seconds(it.heartbeat_min_s)], [t('Heartbeat, usual'), seconds(it.heartbeat_default_s)], [t('Heartbeat, longest'), seconds(it.heartbeat_max_s)],
      [t('Stored pushes per device'), number(it.offline_count_max)], [t('Stored bytes per device'), bytes(it.offline_bytes_max)],
      [t('Longest time to live'), seconds(it.ttl_max_s)], [t('Unacknowledged pushes per connection'), number(it.inflight_max)],
      [t('Stores pushes for unknown devices'), it.store_for_unknown ? t('yes') : t('no')], [t('Reports per second and device'), number(it.reports_per_s)],
      [t('Also published to'), it.topic === null ? '–' : name(it.topic)],
    ]);
  });
  const acts = place.may('admin') && h('div', { class: 'row' },
    button(t('Add a secret'), async () => {
      set(made, ...secret(await ask('PUT', path(key), { generate_secret: true })));
      await look();
    }, { class: 'second', id: 'add-secret' }),
    button(t('Remove'), async () => {
      if (!await sure(t('Remove {product}?', { product: key }), t('Remove product'), t('Its devices can no longer connect.'))) return;
      await ask('DELETE', path(key));
      notice(t('Product {product} was removed.', { product: key }));
      location.hash = '#/products';
    }, { class: 'danger', id: 'remove' }));
  put(place.root, h('p', {}, h('a', { href: '#/products' }, t('← All products'))),
    toolCard(parts('Product {product}', { product: name(key) }), refresher(place, place.root, look), state, acts, made));
  look();
}

export const page = { title: t('Products'), scopes: ['read'], lead: t('Kinds of devices: how they log in, and what the server stores for them.'), show };
