// Charts of figures over time, drawn as SVG: lines, a cursor, a table of the same.
//
// A chart states its newest, lowest and highest figures in words for screen readers; the arrow keys
// move through its samples. This module does not know what the figures mean.

import { h, s, say, set } from './dom.js';
import { clock } from './show.js';
import { t } from './texts.js';

const WIDTH = 300;
const HEIGHT = 72;

/** Moments that the table of a chart has. */
const ROWS_MAX = 30;

/**
 * @typedef {object} Line
 * @property {string} name
 * @property {(number | null)[]} values as many as there are moments; null: not known
 */

/**
 * The next round number: 1, 2 or 5 with zeros, in a unit that is a power of `base`.
 * @param {number} value
 * @param {number} base
 * @returns {number}
 */
export function roof(value, base = 10) {
  if (value <= 0) return 1;
  if (base !== 10) {
    const unit = base ** Math.max(0, Math.floor(Math.log(value) / Math.log(base)));
    return Math.min(roof(value / unit), base) * unit;
  }
  const ten = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map(it => it * ten).find(it => it >= value) ?? value;
}

export class Chart {
  /**
   * @param {string} title
   * @param {(value: number) => string} format
   * @param {number} [least] the top of the scale is never lower
   * @param {number} [base] of its units
   */
  constructor(title, format, least = 0, base = 10) {
    this.title = title;
    this.format = format;
    this.least = least;
    this.base = base;
    /** @type {number[]} */
    this.times = [];
    /** @type {Line[]} */
    this.lines = [];
    /** @type {number | null} */
    this.at = null;
    this.top = h('span', { class: 'top', 'aria-hidden': 'true' });
    this.legend = h('ul', { class: 'legend' });
    this.paths = s('g');
    this.cursor = s('line', { class: 'cursor', y1: 0, y2: HEIGHT, visibility: 'hidden' });
    this.svg = s('svg', {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', tabindex: 0,
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event),
      onpointermove: (/** @type {PointerEvent} */ event) => this.point(event),
      onpointerleave: () => this.look(null),
      onblur: () => this.look(null),
    },
    s('line', { class: 'grid', x1: 0, x2: WIDTH, y1: HEIGHT / 2, y2: HEIGHT / 2 }), this.paths, this.cursor);
    this.when = h('output', { class: 'when quiet' });
    this.body = h('div');
    this.details = h('details', { ontoggle: () => this.list() },
      h('summary', { 'aria-label': t('Table: {title}', { title }) }, t('Table')), this.body);
    this.element = h('figure', { class: 'chart card' },
      h('figcaption', {}, h('h2', {}, title), this.when), this.legend,
      h('div', { class: 'plot' }, this.top, this.svg), this.details);
  }

  /**
   * Shows these figures.
   * @param {number[]} times Unix milliseconds, oldest first
   * @param {Line[]} lines
   */
  draw(times, lines) {
    this.times = times;
    this.lines = lines;
    const known = lines.flatMap(line => line.values).filter(value => value !== null);
    const high = roof(Math.max(this.least, ...known), this.base);
    say(this.top, this.format(high));
    const first = times[0] ?? 0;
    const span = Math.max(1, (times[times.length - 1] ?? 0) - first);
    set(this.paths, lines.map((line, number) => {
      let path = '';
      let isOn = false;
      line.values.forEach((value, at) => {
        if (value === null) return (isOn = false);
        const x = ((times[at] - first) / span) * WIDTH;
        const y = HEIGHT - 1 - (value / high) * (HEIGHT - 3);
        path += `${isOn ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`;
        return (isOn = true);
      });
      return s('path', { class: `line tone-${number % 6}`, d: path });
    }));
    if (this.at !== null) this.at = Math.min(this.at, times.length - 1);
    this.told();
    if (this.details.open) this.list();
  }

  /** What is said of the figures, at the cursor or now. */
  told() {
    const at = this.at ?? this.times.length - 1;
    const value = (/** @type {Line} */ line) => {
      const found = line.values[at];
      return found === null || found === undefined ? '–' : this.format(found);
    };
    // The items stay where they are, so that nothing moves but the figures.
    if (this.legend.childElementCount !== this.lines.length) {
      set(this.legend, this.lines.map((_, number) =>
        h('li', {}, h('i', { class: `dot tone-${number % 6}` }), h('span'), ' ', h('b'))));
    }
    this.lines.forEach((line, number) => {
      const item = this.legend.children[number];
      say(item.children[1], line.name);
      say(item.children[2], value(line));
    });
    const range = (/** @type {Line} */ line) => {
      const known = line.values.filter(value => value !== null);
      if (!known.length) return t('{line}: unknown', { line: line.name });
      const [low, high] = [Math.min(...known), Math.max(...known)].map(this.format);
      return t('{line}: {value}, lowest {low}, highest {high}', { line: line.name, value: value(line), low, high });
    };
    const when = this.at === null ? t('now') : clock(this.times[at]);
    this.svg.setAttribute('aria-label', `${this.title}, ${when}. ${this.lines.map(range).join('. ')}`);
    say(this.when, this.at === null ? '' : clock(this.times[at]));
    const first = this.times[0] ?? 0;
    const span = Math.max(1, (this.times[this.times.length - 1] ?? 0) - first);
    const x = String(((this.times[at] - first) / span) * WIDTH);
    if (this.at !== null) {
      this.cursor.setAttribute('x1', x);
      this.cursor.setAttribute('x2', x);
    }
    this.cursor.setAttribute('visibility', this.at === null ? 'hidden' : 'visible');
  }

  /** Looks at one moment; null: at the newest. @param {number | null} at */
  look(at) {
    if (at === this.at || !this.times.length) return;
    this.at = at === null ? null : Math.max(0, Math.min(at, this.times.length - 1));
    this.told();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const last = this.times.length - 1;
    const from = this.at ?? last;
    /** @type {Record<string, number | null>} */
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, PageUp: from - 30, PageDown: from + 30,
      Home: 0, End: last, Escape: null };
    if (!(event.key in to)) return;
    event.preventDefault();
    this.look(to[event.key]);
  }

  /** @param {PointerEvent} event */
  point(event) {
    const box = this.svg.getBoundingClientRect();
    const first = this.times[0] ?? 0;
    const span = (this.times[this.times.length - 1] ?? 0) - first;
    const time = first + ((event.clientX - box.left) / box.width) * span;
    let at = this.times.findIndex(it => it >= time);
    if (at < 0) at = this.times.length - 1;
    this.look(at);
  }

  /** The newest moments as a table. */
  list() {
    if (!this.details.open) return;
    const newest = this.times.map((_, at) => at).reverse().slice(0, ROWS_MAX);
    const cell = (/** @type {Line} */ line, /** @type {number} */ at) => {
      const value = line.values[at];
      return h('td', { class: 'end' }, value === null ? '–' : this.format(value));
    };
    set(this.body, h('table', {},
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, t('Time')),
        this.lines.map(line => h('th', { scope: 'col', class: 'end' }, line.name)))),
      h('tbody', {}, newest.map(at => h('tr', {},
        h('th', { scope: 'row' }, clock(this.times[at])), this.lines.map(line => cell(line, at)))))));
  }
}
