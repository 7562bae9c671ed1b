// What is retained on topics, and a form that publishes.

import { ask, withQuery } from './api.js';
import { h, put, set } from './dom.js';
import { ago, bytes, button, card, copy, field, loaded, moment, name, notice, number, pairs, sure, table, why } from './show.js';
import { pages, search, text } from './clients.js';

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
    put(place.root, search(place, [['Topic filter', filter]]));
    pages(place, 'Retained messages', async after => {
      const { messages, next } = await ask('GET', withQuery('v1/retained', {
        filter: place.query.get('filter') || '#', after, limit: 100,
      }), undefined, place.gone);
      return { rows: messages, next };
    }, rows => table('Retained messages', [
      { title: 'Topic', head: true, cell: it => link(it.topic) },
      { title: 'Payload', cell: it => (it.payload === undefined ? h('span', { class: 'quiet' }, 'no text') : name(it.payload)) },
      { title: 'Bytes', end: true, cell: it => bytes(size(it.payload_base64)) },
      { title: 'QoS', end: true, cell: it => String(it.qos) },
      { title: 'Published', cell: it => ago(it.at_s * 1_000) },
    ], rows, 'Nothing is retained there. Topics that begin with $ are found by a filter that does.'));
  }
  if (place.may('publish')) publish(place);
}

/** @param {Place} place @param {string} topic */
function showOne(place, topic) {
  const state = h('div');
  const path = withQuery('v1/retained_message', { topic });
  put(place.root, h('p', {}, h('a', { href: '#/topics' }, '← All topics')),
    h('section', { class: 'card' }, h('h2', {}, 'Retained on ', name(topic)), state,
      place.may('manage') && h('div', { class: 'row' }, button('Clear it', async () => {
        if (!await sure(`Clear what is retained on ${topic}?`, 'Clear it', 'Later subscribers get nothing. Those who have it keep it.')) return;
        await ask('DELETE', path);
        notice(`Nothing is retained on ${topic} any more.`);
        location.hash = '#/topics';
      }, { class: 'danger', id: 'clear' }))));
  loaded(state, async () => {
    const it = await ask('GET', path, undefined, place.gone);
    const whole = it.payload ?? it.payload_base64;
    return [pairs([
      ['Published', ago(it.at_s * 1_000)], ['QoS', String(it.qos)], ['Bytes', number(size(it.payload_base64))],
      ['Ends', it.expire_at_s ? moment(it.expire_at_s * 1_000) : 'never'], ['Content type', it.content_type ?? '–'],
      ['Response topic', it.response_topic ? name(it.response_topic) : '–'],
      ...(it.user_properties ?? []).map((/** @type {[string, string]} */ [key, value]) => /** @type {[string, any]} */ ([key, name(value)])),
    ]), h('p', { class: 'quiet' }, it.payload === undefined ? 'The payload is no text; in base64:' : 'The payload:'),
    h('pre', { tabindex: 0 }, whole.slice(0, SHOWN_MAX)),
    whole.length > SHOWN_MAX && h('p', { class: 'quiet' }, `The first ${number(SHOWN_MAX)} of ${number(whole.length)} characters.`)];
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
  const form = h('form', { class: 'grid' }, field('Topic', topic), field('Payload', payload),
    h('div', { class: 'row foot' }, field('QoS', qos), h('label', { class: 'check' }, retain, 'Retain'),
      h('button', { type: 'submit' }, 'Publish')), done, code);
  form.addEventListener('submit', async event => {
    event.preventDefault();
    try {
      const { matched } = await ask('POST', 'v1/publish', body());
      set(done, matched ? 'It is where it has to be.' : 'Nobody is subscribed to this topic.');
    } catch (error) {
      set(done, h('span', { class: 'fault' }, why(error)));
    }
    set(code, curl('v1/publish', body()));
  });
  put(place.root, card('Publish', form));
}

/** The same call with curl. @param {string} path @param {any} body */
export function curl(path, body) {
  const quoted = JSON.stringify(body).replaceAll("'", "'\\''");
  const line = `curl -H "Authorization: Bearer $TOKEN" ${new URL(path, document.baseURI)} -d '${quoted}'`;
  return h('details', {}, h('summary', {}, 'The same with curl'), h('pre', {}, line), copy(line));
}

export const page = { title: 'Topics', scopes: ['read', 'publish'], lead: 'Messages that are kept for later subscribers, and what you publish.', show };
