// Retained messages, and a form to publish.

import { ask, withQuery } from './api.js';
import { h, put, set } from './dom.js';
import { check, field, search, submits, text } from './forms.js';
import { ago, bytes, button, card, copy, loaded, name, notice, number, pairs, sortable, sure, when } from './show.js';
import { pages } from './clients.js';
import { parts, t } from './texts.js';

/** @typedef {import('./console.js').Place} Place */

/** Characters of a payload that are shown. */
const SHOWN_MAX = 20_000;

/** @param {string} topic */
const link = topic => h('a', { href: `#/topics?topic=${encodeURIComponent(topic)}` }, name(topic));

/** @param {string} base64 */
const size = base64 => Math.floor((base64.replace(/=+$/, '').length * 3) / 4);

/** @param {Place} place */
function show(place) {
  const one = place.query.get('topic');
  if (one !== null) return showOne(place, one);
  if (place.may('read')) {
    const filter = text('filter', 'tills/+/state');
    put(place.root, search(place, [[t('Topic filter'), filter, t('With the wildcards + and #. Default: #, all topics that do not begin with $.')]]));
    pages(place, t('Retained messages'), async after => {
      const { messages, next } = await ask('GET', withQuery('v1/retained', {
        filter: place.query.get('filter') || '#', after, limit: 100,
      }), undefined, place.gone);
      return { rows: messages, next };
    }, rows => sortable(place, t('Retained messages'), [
      { title: t('Topic'), sort: 'topic', head: true, cell: it => link(it.topic) },
      { title: t('Payload'), cell: it => (it.payload === undefined ? h('span', { class: 'quiet' }, t('binary')) : name(it.payload)) },
      { title: t('Size'), sort: 'size', by: it => size(it.payload_base64), end: true, cell: it => bytes(size(it.payload_base64)) },
      { title: t('QoS'), sort: 'qos', end: true, cell: it => String(it.qos) },
      { title: t('Published'), sort: 'at_s', cell: it => ago(it.at_s * 1_000) },
    ], rows, t('No retained messages. To list topics that begin with $, use a filter that begins with $.')));
  }
  if (place.may('publish')) publish(place);
}

/** @param {Place} place @param {string} topic */
function showOne(place, topic) {
  const state = h('div');
  const path = withQuery('v1/retained_message', { topic });
  put(place.root, h('p', {}, h('a', { href: '#/topics' }, t('← All topics'))),
    h('section', { class: 'card' }, h('h2', {}, parts('Retained message of {topic}', { topic: name(topic) })), state,
      place.may('manage') && h('div', { class: 'row' }, button(t('Delete'), async () => {
        if (!await sure(t('Delete the retained message of {topic}?', { topic }), t('Delete message'), t('New subscribers will not receive it. Clients that received it are not affected.'))) return;
        await ask('DELETE', path);
        notice(t('The retained message of {topic} was deleted.', { topic }));
        location.hash = '#/topics';
      }, { class: 'danger', id: 'clear' }))));
  loaded(state, async () => {
    const it = await ask('GET', path, undefined, place.gone);
    const whole = it.payload ?? it.payload_base64;
    return [pairs([
      [t('Published'), ago(it.at_s * 1_000)], [t('QoS'), String(it.qos)], [t('Size'), bytes(size(it.payload_base64))],
      [t('Expires'), it.expire_at_s ? when(it.expire_at_s * 1_000) : t('never')], [t('Content type'), it.content_type ?? '–'],
      [t('Response topic'), it.response_topic ? name(it.response_topic) : '–'],
      ...(it.user_properties ?? []).map((/** @type {[string, string]} */ [key, value]) => /** @type {[string, any]} */ ([key, name(value)])),
    ]), h('p', { class: 'quiet' }, it.payload === undefined ? t('Payload (binary, shown in base64):') : t('Payload:')),
    h('pre', { tabindex: 0 }, whole.slice(0, SHOWN_MAX)),
    whole.length > SHOWN_MAX && h('p', { class: 'quiet' }, t('The first {shown} of {count} characters.', { shown: number(SHOWN_MAX), count: number(whole.length) }))];
  });
}

/** @param {Place} place */
function publish(place) {
  const topic = h('input', { name: 'topic', required: true, autocomplete: 'off' });
  const payload = h('textarea', { name: 'payload' });
  const qos = h('select', { name: 'qos' }, ['0', '1', '2'].map(it => h('option', { value: it }, it)));
  const retain = h('input', { type: 'checkbox', name: 'retain' });
  const done = h('p', { role: 'status' });
  const code = h('div');
  const body = () => ({ topic: topic.value, payload: payload.value, qos: Number(qos.value), retain: retain.checked });
  const form = h('form', { class: 'grid' }, field(t('Topic'), topic, t('Where the message is published, without wildcards: at most [mqtt] topic_bytes_max bytes (1,024 by default). For example: tills/1/state')),
    field(t('Payload'), payload, t('The content, as text. With retain, an empty payload deletes the retained message.')),
    h('div', { class: 'cards' }, field(t('QoS'), qos, t('0: at most once, 1: at least once, 2: exactly once. Default: 0.')),
      check(t('Retain for new subscribers'), retain, t('The server stores the message, and later subscribers receive it. Default: off.'))),
    h('div', { class: 'row' }, h('button', { type: 'submit' }, t('Publish'))), done, code);
  submits(form, async () => {
    set(done);
    set(code, curl('v1/publish', body()));
    const { matched } = await ask('POST', 'v1/publish', body());
    set(done, matched ? t('Published.') : t('Published. No client is subscribed to this topic.'));
  });
  put(place.root, card(t('Publish a message'), form));
}

/** The same call with curl. @param {string} path @param {any} body */
export function curl(path, body) {
  const quoted = JSON.stringify(body).replaceAll("'", "'\\''");
  const line = `curl -H "Authorization: Bearer $TOKEN" ${new URL(path, document.baseURI)} -d '${quoted}'`;
  return h('details', {}, h('summary', {}, t('As a curl command')), h('pre', {}, line), copy(line));
}

export const page = { title: t('Topics'), scopes: ['read', 'publish'], lead: t('Retained messages, and a form to publish.'), show };
