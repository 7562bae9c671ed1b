// Elements, made of text and never of markup, so that no name from outside can become markup.
//
// This module knows no page.

const SVG = 'http://www.w3.org/2000/svg';

/**
 * @typedef {Node | string | number | null | undefined | false} Child
 * @typedef {Child | Child[]} Children
 */

/**
 * @template {Element} T
 * @param {T} element
 * @param {Record<string, any>} properties
 * @param {Children[]} children
 * @returns {T}
 */
function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  put(element, ...children);
  return element;
}

/**
 * An element of HTML.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} name
 * @param {Record<string, any>} [properties] attributes; a function whose name begins with `on` hears
 * @param {Children[]} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(name, properties = {}, ...children) {
  return fill(document.createElement(name), properties, children);
}

/**
 * An element of SVG.
 * @param {string} name
 * @param {Record<string, any>} [properties]
 * @param {Children[]} children
 * @returns {SVGElement}
 */
export function s(name, properties = {}, ...children) {
  return fill(/** @type {SVGElement} */ (document.createElementNS(SVG, name)), properties, children);
}

/**
 * Appends children to an element.
 * @param {Element} element
 * @param {Children[]} children
 */
export function put(element, ...children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Replaces the children of an element.
 * @param {Element} element
 * @param {Children[]} children
 */
export function set(element, ...children) {
  element.replaceChildren();
  put(element, ...children);
}

/**
 * Changes a text only if it differs, so that screen readers announce changes only.
 * @param {Element} element
 * @param {string} text
 */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
