// Every text of the console has its Chinese, and pages have no text outside t().

import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';
import { parts, t } from '../texts.js';
import { ZH } from '../zh.js';

const folder = new URL('..', import.meta.url);
const modules = readdirSync(folder).filter(name => name.endsWith('.js') && !/^(texts|zh)\.js$/.test(name))
  .map(name => ({ name, source: readFileSync(new URL(name, folder), 'utf8') }));

const LITERAL = String.raw`'((?:[^'\\\n]|\\.)*)'`;

/** The value of what stands between quotes. @param {string} inner */
const value = inner => inner.replace(/\\u([0-9a-f]{4})/g, (_, code) => String.fromCharCode(parseInt(code, 16))).replace(/\\(.)/g, '$1');

/** Texts of a module that go through t or parts. @param {string} source */
const used = source => [...source.matchAll(new RegExp(String.raw`\b(?:t|parts)\(\s*${LITERAL}`, 'g'))].map(it => value(it[1]));

/** Source without comments. @param {string} source */
const code = source => source.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|\s)\/\/.*$/gm, '$1');

// Names that stand for themselves in any language, and what browsers and servers read.
const NAMES = /^(Holdline:?|holdline .*|Language \/ 语言|Content-Type:?( )?|Authorization|Bearer( .*)?|Arrow(Left|Right)|Page(Up|Down)|Home|End|Escape|AbortError|Holdline-Console|GET|POST|PUT|DELETE|Enter|systemctl reload holdline|KiB|MiB|GiB|TiB|PiB|B)$/;

/** Whether a literal reads as words for people. @param {string} text */
const isProse = text => !NAMES.test(text) && (/^[A-Z][a-z]+/.test(text) || /^[a-z]+ [a-z]+ [a-z]+/i.test(text) || /[一-鿿]/.test(text));

/** Prose of a module that does not go through t or parts. @param {string} source */
function bare(source) {
  const rest = code(source).replace(new RegExp(String.raw`\b(t|parts)\(\s*${LITERAL}`, 'g'), '$1(').replace(/^import .*$/gm, '');
  const quoted = [...rest.matchAll(new RegExp(LITERAL, 'g'))].map(it => value(it[1]));
  // Of a template, what stands between its values.
  const templates = [...rest.matchAll(/`((?:[^`\\]|\\.)*)`/g)].flatMap(it => it[1].replace(/\$\{(?:[^{}]|\{[^{}]*\})*\}/g, '\0').split('\0').map(part => part.trim()));
  return [...quoted, ...templates].filter(isProse);
}

test('every text has its Chinese, and every Chinese a text', () => {
  const all = new Set(modules.flatMap(it => used(it.source)));
  assert.ok(all.size > 300, 'the texts were found');
  assert.deepEqual([...all].filter(text => !(text in ZH)), [], 'texts without a line in zh.js');
  assert.deepEqual(Object.keys(ZH).filter(text => !all.has(text)), [], 'lines of zh.js that nothing uses');
});

test('a text and its Chinese have the same values', () => {
  const names = (/** @type {string} */ text) => (text.match(/\{\w+\}/g) ?? []).sort();
  for (const [text, chinese] of Object.entries(ZH)) assert.deepEqual(names(chinese), names(text), text);
});

test('no page has a text outside t(), and none that the translations cannot know', () => {
  for (const { name, source } of modules) {
    assert.deepEqual(bare(source), [], name);
    assert.deepEqual(code(source).match(/\b(t|parts)\((?!\s*').{0,40}/g) ?? [], [], `${name}: a text that is no literal`);
  }
});

test('a bare text is found', () => {
  const page = "// It's a comment\nput(root, h('p', {}, 'No clients here.'), t('Fine'), card('Totals', x), `Up ${time} for long`, 'v1/clients')";
  assert.deepEqual(bare(page), ['No clients here.', 'Totals', 'Up']);
});

test('values go in by name, and elements too', () => {
  assert.equal(t('{count} shown', { count: 3 }), '3 shown');
  assert.equal(t('{a} {b}', { a: '{b}' }), '{b} {b}', 'a value is no text');
  assert.deepEqual(parts('a {x} b', { x: 1 }), ['a ', 1, ' b']);
});
