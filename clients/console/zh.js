// The Chinese of the console's texts, by their English (texts.js), in sections by page.

/** @type {Record<string, string>} */
export const ZH = {
};
