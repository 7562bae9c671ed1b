// At which field an error is shown.

import assert from 'node:assert/strict';
import test from 'node:test';
import { Refused } from '../api.js';
import { Invalid, named } from '../forms.js';

/** A form of fields with these names, and the errors that they show. */
const form = (/** @type {[string, string?][]} */ ...fields) => /** @type {any} */ ({
  querySelectorAll: () => fields.map(([name, errors]) => ({ name, dataset: { errors } })),
});

test('an error is shown at the field that it names, by the name or the code of the API', () => {
  const of = form(['name', 'token_exists'], ['days', 'ttl_s'], ['rules']);
  const at = (/** @type {string} */ code, /** @type {string} */ message) => /** @type {any} */ (named(of, new Refused(400, code, message)))?.name;
  assert.equal(at('bad_request', '`ttl_s` must be 1 to 315360000'), 'days');
  assert.equal(at('bad_request', '`rules[3].filter` has a # that is not last'), 'rules');
  assert.equal(at('token_exists', 'the name is taken'), 'name');
  assert.equal(at('bad_request', 'unknown field `x`, expected `rules`'), 'rules', 'the first that is a field here');
  assert.equal(at('busy', 'a queue is full'), undefined, 'it is about no field');
});

test('an error that the page found is shown at its field, and any other at none', () => {
  const field = /** @type {any} */ ({ name: 'key' });
  assert.equal(named(form(), new Invalid(field, 'This product already exists.')), field);
  assert.equal(named(form(['key']), new TypeError('`key` is undefined')), undefined);
});
