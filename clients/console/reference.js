// Every API call, from the `/openapi.json` of this server, with a form to try it.
//
// A call uses the session, or a token that is typed here and not stored. This module knows no call
// by name.

import { ask, why } from './api.js';
import { h, put, set } from './dom.js';
import { field } from './forms.js';
import { badge, card, copy } from './show.js';
import { t } from './texts.js';

/** Longest answer that is shown, bytes; of a stream the first ones. */
const SHOWN_MAX = 64 * 1024;

/** How long one listens to a stream, milliseconds. */
const LISTEN_MS = 5_000;

/**
 * @typedef {{ method: string, path: string, told: any, inherited: any[] }} Call
 */

/** What a reference stands for. @param {any} all @param {any} part @returns {any} */
function found(all, part) {
  const at = part?.$ref;
  if (typeof at !== 'string') return part;
  return at.slice(2).split('/').reduce((inside, name) => inside?.[name.replaceAll('~1', '/').replaceAll('~0', '~')], all);
}

/** All calls, in the order of the description. @param {any} all @returns {Call[]} */
export function calls(all) {
  return Object.entries(all.paths).flatMap(([path, item]) =>
    ['get', 'post', 'put', 'delete'].filter(method => method in item).map(method => ({
      method: method.toUpperCase(), path, told: item[method], inherited: item.parameters ?? [],
    })));
}

/** What a call is filed under: the first word of its path behind the version. @param {string} path */
export function group(path) {
  const [first, second] = path.split('/').filter(Boolean);
  return (first === 'v1' ? second : first)?.replace(/[{}]/g, '') ?? 'index';
}

/** A type in a few words. @param {any} all @param {any} schema @returns {string} */
export function kind(all, schema) {
  const it = found(all, schema) ?? {};
  if (it.const !== undefined) return JSON.stringify(it.const);
  if (it.enum) return it.enum.map((/** @type {any} */ word) => JSON.stringify(word)).join(' | ');
  const either = it.anyOf ?? it.oneOf;
  if (either) return either.map((/** @type {any} */ one) => kind(all, one)).join(' | ');
  if (it.type === 'array') return `${kind(all, it.items ?? {})}[]`;
  const types = Array.isArray(it.type) ? it.type : [it.type ?? 'any'];
  return types.join(' | ');
}

/** Rows of an object's fields. @param {any} all @param {any} schema @returns {HTMLElement | null} */
function fields(all, schema) {
  const it = found(all, schema);
  if (!it?.properties) return null;
  const required = new Set(it.required ?? []);
  return h('dl', { class: 'fields' }, Object.entries(it.properties).map(([name, one]) => {
    const part = /** @type {any} */ (one);
    return [h('dt', {}, h('code', {}, name), ' ', h('span', { class: 'quiet' }, kind(all, part), required.has(name) ? '' : `, ${t('optional')}`)),
      h('dd', {}, part.description ?? found(all, part)?.description ?? '')];
  }).flat());
}

/** The first example of a body. @param {any} content @returns {any} */
function example(content) {
  const [first] = Object.values(content?.examples ?? {});
  return /** @type {any} */ (first)?.value;
}

/** A call as a line for a shell. @param {string} method @param {string} url @param {string} body @param {string} type */
export function command(method, url, body, type) {
  const quoted = (/** @type {string} */ text) => `'${text.replaceAll("'", "'\\''")}'`;
  const words = ['curl', '-H', '"Authorization: Bearer $TOKEN"'];
  if (method !== 'GET') words.push('-X', method);
  if (body) words.push('-H', quoted(`Content-Type: ${type}`), '-d', quoted(body));
  return [...words, quoted(url)].join(' ');
}

/** The first bytes of an answer. @param {Response} answer @param {AbortController} end */
async function beginning(answer, end) {
  if (!answer.body) return '';
  const reader = answer.body.getReader();
  const decoder = new TextDecoder();
  let text = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return text + decoder.decode();
      text += decoder.decode(value, { stream: true });
      if (text.length >= SHOWN_MAX) return `${text.slice(0, SHOWN_MAX)}\n… ${t('(truncated)')}`;
    }
  } catch (error) {
    if (end.signal.aborted) return `${text}\n… ${t('(stopped after {count} s)', { count: LISTEN_MS / 1_000 })}`;
    throw error;
  } finally {
    end.abort();
  }
}

/** @param {string} type @param {string} text */
function readable(type, text) {
  if (!type.includes('json')) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/**
 * The form of a call.
 * @param {any} all
 * @param {Call} call
 * @param {HTMLInputElement} token
 */
function form(all, call, token) {
  const parameters = [...call.inherited, ...(call.told.parameters ?? [])].map(it => found(all, it));
  const inputs = parameters.map(it => ({
    it,
    input: h('input', { name: it.name, autocomplete: 'off', spellcheck: 'false', required: it.required === true,
      placeholder: kind(all, it.schema) }),
  }));
  const [type, content] = Object.entries(call.told.requestBody?.content ?? {})[0] ?? ['', null];
  const body = content && h('textarea', { name: 'body', class: 'mono', spellcheck: 'false', rows: 6 });
  const first = example(content);
  if (body && first !== undefined) body.value = typeof first === 'string' ? first : JSON.stringify(first, null, 2);
  const answered = h('div', { class: 'answer', role: 'status' });
  const send = h('button', { type: 'submit' }, t('Send'));
  const made = h('form', { class: 'grid' },
    inputs.length > 0 && h('div', { class: 'cards' }, inputs.map(({ it, input }) =>
      field(`${it.name} (${it.in})`, input, it.description ?? kind(all, it.schema)))),
    body && field(t('Body ({type})', { type }), body, t('The fields are listed above.')), h('div', { class: 'row' }, send), answered);
  made.addEventListener('submit', async event => {
    event.preventDefault();
    send.disabled = true;
    const values = (/** @type {string} */ where) => inputs.filter(({ it, input }) => it.in === where && input.value !== '');
    const path = values('path').reduce((text, { it, input }) =>
      text.replace(`{${it.name}}`, encodeURIComponent(input.value)), call.path.replace(/^\//, ''));
    const query = new URLSearchParams(values('query').map(({ it, input }) => [it.name, input.value])).toString();
    const target = query ? `${path}?${query}` : path;
    /** @type {Record<string, string>} */
    const headers = { 'Holdline-Console': '1' };
    if (token.value) headers.Authorization = `Bearer ${token.value.trim()}`;
    if (body?.value) headers['Content-Type'] = type;
    for (const { it, input } of values('header')) headers[it.name] = input.value;
    const end = new AbortController();
    const limit = setTimeout(() => end.abort(), LISTEN_MS);
    const began = performance.now();
    try {
      const answer = await fetch(target, { method: call.method, headers, body: body?.value || undefined, cache: 'no-store', signal: end.signal });
      const media = answer.headers.get('Content-Type') ?? '';
      if (!media.includes('event-stream')) clearTimeout(limit);
      const text = await beginning(answer, end);
      const line = command(call.method, new URL(target, location.href).href, body?.value ?? '', type);
      set(answered, h('p', {}, badge(String(answer.status), answer.ok ? 'good' : 'bad'), ' ', answer.statusText, ' ',
        h('span', { class: 'quiet' }, `${Math.round(performance.now() - began)} ms, ${media}`)),
      h('pre', { class: 'mono', tabindex: 0, 'aria-label': t('Answer') }, readable(media, text) || t('(empty)')),
      h('div', { class: 'row' }, h('code', {}, line), copy(line)));
    } catch (error) {
      set(answered, h('p', { class: 'fault' }, end.signal.aborted ? t('No answer within {count} s.', { count: LISTEN_MS / 1_000 }) : why(error)));
    }
    clearTimeout(limit);
    send.disabled = false;
  });
  return made;
}

/** @param {any} all @param {Call} call @param {HTMLInputElement} token */
function shown(all, call, token) {
  const { told } = call;
  const scopes = (told.security ?? []).map((/** @type {any} */ it) => it.token?.[0]).filter(Boolean);
  const inside = h('div', { class: 'grid' });
  const whole = h('details', { class: 'call', id: `call-${told.operationId}` },
    h('summary', {}, h('span', { class: 'mono method' }, call.method), ' ', h('code', {}, call.path), ' ',
      h('span', { class: 'quiet' }, told.summary)), inside);
  // Details are made when they are opened: there are many calls.
  whole.addEventListener('toggle', () => {
    if (!whole.open || inside.childElementCount) return;
    const [, content] = Object.entries(told.requestBody?.content ?? {})[0] ?? ['', null];
    put(inside, told.description && h('p', {}, told.description),
      h('p', { class: 'quiet' }, scopes.length ? t('Required scope: one of {scopes}, or admin.', { scopes: scopes.join(', ') }) : t('No scope required.')),
      content && h('section', {}, h('h3', {}, t('Body')), fields(all, content.schema) ?? h('p', {}, kind(all, content.schema))),
      h('section', {}, h('h3', {}, t('Answers')), h('dl', { class: 'fields' },
        Object.entries(told.responses).map(([status, one]) => {
          const answer = found(all, one);
          const [media] = Object.entries(answer.content ?? {});
          return [h('dt', {}, status), h('dd', {}, answer.description, ' ',
            media && Number(status) < 300 ? [h('span', { class: 'quiet' }, media[0]), fields(all, /** @type {any} */ (media[1]).schema)] : '')];
        }).flat())),
      h('section', {}, h('h3', {}, t('Try it')), form(all, call, token)));
  });
  return whole;
}

/** @param {import('./console.js').Place} place */
async function show(place) {
  const token = h('input', { name: 'try-token', type: 'password', autocomplete: 'off', spellcheck: 'false', maxlength: 1024 });
  const filter = h('input', { name: 'filter', type: 'search', autocomplete: 'off', value: place.query.get('find') ?? '' });
  const list = h('div', { class: 'calls' });
  put(place.root, h('div', { class: 'cards' }, field(t('Find a call'), filter, t('By path, word or scope.')),
    field(t('Token'), token, t('Leave empty to use the console session. The token is not stored.'))), list);
  let all;
  try {
    all = await ask('GET', 'openapi.json', undefined, place.gone);
  } catch (error) {
    if (!place.gone.aborted) set(list, h('p', { class: 'fault' }, why(error)));
    return;
  }
  /** @type {Map<string, { text: string, element: HTMLElement }[]>} */
  const groups = new Map();
  for (const call of calls(all)) {
    const text = `${call.method} ${call.path} ${call.told.summary} ${JSON.stringify(call.told.security)}`.toLowerCase();
    const name = group(call.path);
    groups.set(name, [...(groups.get(name) ?? []), { text, element: shown(all, call, token) }]);
  }
  const cards = [...groups].map(([name, entries]) => ({
    element: card(name, ...entries.map(entry => entry.element)), entries,
  }));
  put(list, ...cards.map(it => it.element));
  const none = h('p', { class: 'none' }, t('No matches.'));
  const look = () => {
    const wanted = filter.value.trim().toLowerCase().split(/\s+/);
    let count = 0;
    for (const { element, entries } of cards) {
      let seen = 0;
      for (const entry of entries) {
        entry.element.hidden = !wanted.every(word => entry.text.includes(word));
        seen += entry.element.hidden ? 0 : 1;
      }
      element.hidden = seen === 0;
      count += seen;
    }
    if (count === 0) put(list, none);
    else none.remove();
  };
  filter.addEventListener('input', look);
  look();
}

export const page = { title: t('API'), scopes: ['metrics', 'read', 'push', 'publish', 'manage', 'users', 'view', 'trace', 'chat'],
  lead: t('Every API call of this server, with a form to try it.'), show };
