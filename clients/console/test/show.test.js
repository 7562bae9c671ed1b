// How numbers and times are told.

import assert from 'node:assert/strict';
import test from 'node:test';
import { roof } from '../chart.js';
import { bytes, compact, duration, moment, number, ordered } from '../show.js';

/** Numbers stand before their units with a space that does not break. @param {string} text */
const firm = text => text.replaceAll(' ', '\u00a0');

test('bytes have the unit that is read best', () => {
  const told = [0, 1023, 1024, 1536, 100 * 1024, 1024 ** 3, 5.5 * 1024 ** 4, 2 ** 70].map(bytes);
  assert.deepEqual(told, ['0 B', '1023 B', '1.0 KiB', '1.5 KiB', '100 KiB', '1.0 GiB', '5.5 TiB', '1048576 PiB'].map(firm));
  assert.deepEqual([bytes(null), bytes(undefined)], ['–', '–']);
});

test('a duration has two units at most', () => {
  const told = [-5, 0, 999, 59_400, 60_000, 61_000, 3_600_000, 90_000_000, 86_400_000 * 400].map(duration);
  assert.deepEqual(told, ['0 s', '0 s', '1 s', '59 s', '1 min', '1 min 1 s', '1 h', '1 d 1 h', '400 d'].map(firm));
});

test('numbers are grouped, and short where there is little room', () => {
  assert.deepEqual([number(1234567), number(0), number(null)], ['1,234,567', '0', '–']);
  assert.deepEqual([compact(0.04), compact(9999.96), compact(12_345), compact(1_234_567)], ['0', '10,000', '12.3K', '1.23M']);
});

test('what never was has no moment', () => {
  assert.equal(moment(0), '–');
  assert.match(moment(1_760_000_000_000), /^2025-10-\d\d \d\d:\d\d:20$/);
});

test('the top of a scale is round in its unit', () => {
  assert.deepEqual([0, 1, 3, 7, 601, 1001].map(it => roof(it)), [1, 1, 5, 10, 1000, 2000]);
  const KiB = 1024;
  assert.deepEqual([300, 3 * KiB, 29 * KiB, 600 * KiB, 900 * KiB ** 2].map(it => roof(it, KiB)),
    [500, 5 * KiB, 50 * KiB, 1000 * KiB, 1000 * KiB ** 2]);
});

test('rows are sorted by the column that the address names, and rows without a value are last', () => {
  const columns = [{ title: 'Client', sort: 'id', cell: () => '' }, { title: 'Queued', sort: 'queued', cell: () => '' },
    { title: 'New', sort: 'new', by: (/** @type {any} */ it) => it.more?.count, cell: () => '' }];
  const rows = [{ id: 'till-10', queued: 5 }, { id: 'till-9', queued: null, more: { count: 1 } }, { id: 'lamp', queued: 70 }];
  const ids = (/** @type {string} */ order) => ordered(columns, rows, order).map(it => it.id).join(' ');
  assert.deepEqual(['', 'id', '-id', 'queued', '-queued', '-new', 'nonsense'].map(ids), [
    'till-10 till-9 lamp', 'lamp till-9 till-10', 'till-10 till-9 lamp', 'till-10 lamp till-9', 'lamp till-10 till-9',
    'till-9 till-10 lamp', 'till-10 till-9 lamp']);
});
