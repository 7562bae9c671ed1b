// Forms: fields with a label, a sentence that says what they mean, and an error of their own.
//
// This module knows no page and calls no API. Invariant: an error is shown at the field that it
// names, and at the foot of the form if it names none.

import { Refused, why } from './api.js';
import { h, put, set } from './dom.js';
import { t } from './texts.js';

/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Input */

/** An error of one field, which the page found before it asked the server. */
export class Invalid extends Error {
  /** @param {HTMLElement} field @param {string} message */
  constructor(field, message) {
    super(message);
    this.field = field;
  }
}

let fields = 0;

/**
 * What stands below a field: what it means, and its error.
 * @param {HTMLElement} input
 * @param {string} hint
 */
function told(input, hint) {
  input.id ||= `field-${++fields}`;
  input.setAttribute('aria-describedby', `${input.id}-hint ${input.id}-fault`);
  return [h('small', { id: `${input.id}-hint` }, hint), h('small', { id: `${input.id}-fault`, class: 'fault' })];
}

/**
 * A field: its label, and a sentence with its unit, default and limits. The attribute `data-errors`
 * of the input names the errors that are shown here, by their codes or by fields of the API; an error
 * about a field of the same name is shown here without it.
 * @param {string} label
 * @param {Input} input
 * @param {string} hint
 */
export function field(label, input, hint) {
  const below = told(input, hint);
  return h('div', { class: 'field' }, h('label', { for: input.id }, label), input, ...below);
}

/** A field to tick, in the same way. @param {string} label @param {HTMLInputElement} input @param {string} hint */
export function check(label, input, hint) {
  const below = told(input, hint);
  return h('div', { class: 'field' }, h('label', { class: 'check', for: input.id }, input, label), ...below);
}

/** Fields that belong together. @param {string} label @param {string} errors @param {string} hint @param {HTMLElement[]} inside */
export function fieldset(label, errors, hint, inside) {
  const it = h('fieldset', { 'data-errors': errors }, h('legend', {}, label));
  put(it, ...told(it, hint), ...inside);
  return it;
}

/** The error of a field; an empty text: it has none. @param {HTMLElement} field @param {string} text */
function mark(field, text) {
  if (text) field.setAttribute('aria-invalid', 'true');
  else field.removeAttribute('aria-invalid');
  const place = document.getElementById(`${field.id}-fault`);
  if (place) set(place, text);
}

/** The fields of a form. @param {ParentNode} form @returns {HTMLElement[]} */
const fieldsOf = form => [...form.querySelectorAll('[aria-describedby$="-fault"]')].map(it => /** @type {HTMLElement} */ (it));

/** What is wrong with what was entered; an empty text: nothing. @param {HTMLElement} field */
function problem(field) {
  if (!('validity' in field)) return '';
  const { validity, min, max } = /** @type {HTMLInputElement} */ (field);
  if (validity.badInput || validity.stepMismatch) return t('Enter a whole number.');
  if (validity.valueMissing) return t('Required.');
  if (validity.rangeUnderflow || validity.rangeOverflow) return t('Allowed: {min} to {max}.', { min: Number(min), max: Number(max) });
  return validity.valid ? '' : t('Invalid: the line above says what is allowed.');
}

/**
 * The field that a refusal is about: the field of the API in its message, or its code.
 * @param {ParentNode} form
 * @param {unknown} error
 */
export function named(form, error) {
  if (error instanceof Invalid) return error.field;
  if (!(error instanceof Refused)) return undefined;
  const words = [...[...error.message.matchAll(/`(\w+)/g)].map(it => it[1]), error.code];
  const isOf = (/** @type {any} */ it, /** @type {string} */ word) => it.name === word || (it.dataset.errors ?? '').split(',').includes(word);
  return words.map(word => fieldsOf(form).find(it => isOf(it, word))).find(Boolean);
}

/** Shows an error at the field that it names; false: it names none. @param {ParentNode} form @param {unknown} error */
export function blame(form, error) {
  const field = named(form, error);
  if (!field) return false;
  mark(field, why(error));
  return true;
}

/** Takes the errors of all fields away. @param {ParentNode} form */
const clear = form => fieldsOf(form).forEach(it => mark(it, ''));

/**
 * Has a form act when it is submitted and its fields are valid; its button is disabled meanwhile.
 * @param {HTMLFormElement} form
 * @param {() => Promise<any>} act
 */
export function submits(form, act) {
  const foot = h('p', { class: 'fault', role: 'alert' });
  put(form, foot);
  form.noValidate = true;
  form.addEventListener('submit', async event => {
    event.preventDefault();
    clear(form);
    set(foot);
    const wrong = fieldsOf(form).filter(it => problem(it));
    wrong.forEach(it => mark(it, problem(it)));
    if (wrong.length) return wrong[0].focus();
    const send = /** @type {HTMLButtonElement | null} */ (form.querySelector('button[type="submit"]'));
    if (send) send.disabled = true;
    try {
      await act();
    } catch (error) {
      if (blame(form, error)) named(form, error)?.focus();
      else set(foot, why(error));
    }
    if (send) send.disabled = false;
  });
}

/**
 * A search form whose values are in the address.
 * @param {import('./console.js').Place} place
 * @param {[string, HTMLInputElement | HTMLSelectElement, string][]} wanted label, input and meaning; the input's name is the query's
 */
export function search(place, wanted) {
  const form = h('form', { class: 'filter', role: 'search' }, wanted.map(([label, input, hint]) => field(label, input, hint)),
    h('button', { type: 'submit' }, t('Search')));
  for (const [, input] of wanted) input.value = place.query.get(input.name) ?? '';
  form.addEventListener('submit', event => {
    event.preventDefault();
    const values = wanted.map(([, input]) => [input.name, input.value.trim()]);
    const kept = ['sort', 'every'].map(key => [key, place.query.get(key) ?? '']);
    place.go(Object.fromEntries([...values, ...kept]));
  });
  return form;
}

/** A field of such a form. @param {string} of @param {string} [like] */
export const text = (of, like) => h('input', { name: of, type: 'search', autocomplete: 'off', spellcheck: 'false', placeholder: like });

/** @param {string} of @param {[string, string][]} options value and label */
export const choice = (of, options) => h('select', { name: of }, options.map(([value, label]) => h('option', { value }, label)));
