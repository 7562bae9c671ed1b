// The texts of the console, in English and Chinese.
//
// A text stands in English where it is shown, t('No clients.'), and its Chinese stands in zh.js
// under the same English. Values go in by name: t('{count} shown', { count: number(3) }), and
// elements by parts('Run {command}.', { command: h('code', {}, 'x') }).
//
// A new page passes every text that people read through t('…'), written as one literal, and adds a
// section with its lines to zh.js. test/texts.test.js names texts without a translation,
// translations that nothing uses, and texts of pages outside t(). Names of reasons, events, scopes,
// keys and states of the API are the same in both languages and stay out of it.

import { REASONS, ZH } from './zh.js';

/** Languages by their codes, each by its own name. @type {[string, string][]} */
export const LANGUAGES = [['en', 'English'], ['zh', '中文']];

/** What was chosen before; a browser may store nothing. */
function stored() {
  try {
    return globalThis.localStorage?.getItem('language') ?? '';
  } catch {
    return '';
  }
}

/** The chosen language, otherwise the first of the browser's that the console has. */
function pick() {
  const wanted = [stored(), ...(globalThis.navigator?.languages ?? [])].map(it => it.slice(0, 2).toLowerCase());
  return wanted.find(it => LANGUAGES.some(([code]) => code === it)) ?? 'en';
}

/** The language of this page; another one takes a reload. */
export const language = globalThis.document ? pick() : 'en';

/** Stores the language; false: the browser stores nothing. @param {string} code */
export function choose(code) {
  try {
    localStorage.setItem('language', code);
    return true;
  } catch {
    return false;
  }
}

/** A text in the language of the page, without its values. @param {string} text */
const said = text => (language === 'zh' ? ZH[text] ?? text : text);

/**
 * A text in the language of the page.
 * @param {string} text in English
 * @param {Record<string, string | number>} [values] by the names in braces
 */
export const t = (text, values = {}) =>
  said(text).replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));

/**
 * What a reason or counter means, which the server tells in English.
 * @param {'closed' | 'dropped' | 'counters'} of
 * @param {string} key
 * @param {string} english
 */
export const meaning = (of, key, english) => (language === 'zh' && REASONS[of]?.[key]) || english;

/**
 * A text with elements in it.
 * @param {string} text in English
 * @param {Record<string, import('./dom.js').Child>} values by the names in braces
 * @returns {import('./dom.js').Child[]}
 */
export const parts = (text, values) =>
  said(text).split(/(\{\w+\})/).map(it => (it.startsWith('{') ? values[it.slice(1, -1)] ?? it : it));
