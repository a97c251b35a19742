/** Texts for numbers and durations, and durations from text. Times are microseconds. */

const UNITS = { h: 3600e6, m: 60e6, s: 1e6, ms: 1e3, us: 1, µs: 1 };
const PART = /(\d+\.?\d*|\.\d+)(h|ms|m|s|us|µs)/g;

/**
 * Reads a duration as Go writes it ("1m30s").
 * @param {string} text
 * @returns {number} microseconds, NaN if the text is no duration
 */
export function parseDuration(text) {
  const digits = text.trim().replace(/^[+-]/, '');
  if (digits === '0') return 0;
  if (!digits || digits.replace(PART, '') !== '') return NaN;
  let sum = 0;
  for (const [, number, unit] of digits.matchAll(PART)) sum += Number(number) * UNITS[unit];
  return text.trim().startsWith('-') ? -sum : sum;
}

/** A duration for people, with three digits that matter: "1.25 s". @param {number} us */
export function duration(us) {
  if (us < 0) return '–' + duration(-us);
  if (us === 0) return '0 s';
  if (us < 1e3) return `${Math.round(us)} µs`;
  if (us < 999_500) return `${short(us / 1e3)} ms`;
  if (us < 119.95e6) return `${short(us / 1e6)} s`;
  if (us < 7199e6) return `${short(us / 60e6)} min`;
  return `${short(us / 3600e6)} h`;
}

/** A duration for a link: the shortest that Go reads back as the same. @param {number} us */
export function goDuration(us) {
  const whole = Math.round(us);
  if (whole % 1e6 === 0) return `${whole / 1e6}s`;
  return whole % 1e3 === 0 ? `${whole / 1e3}ms` : `${whole}us`;
}

/** @param {number} n three digits that matter, or all before the point */
export const short = (n) => String(n >= 100 ? Math.round(n) : Number(n.toPrecision(3)));

const grouped = new Intl.NumberFormat('en');

/** A whole number with its thousands set apart. @param {number} n */
export const count = (n) => grouped.format(n);

/** @param {number} n bytes */
export const bytes = (n) =>
  n < 1e4 ? `${count(n)} B` : n < 1e6 ? `${short(n / 1e3)} kB` : `${(n / 1e6).toFixed(1)} MB`;

/** Where a promise holds: in any window, or, if that is 0, at every moment. @param {number} window */
export const within = (window) => (window ? `in ${duration(window)}` : 'at once');

/** The audit of one window in words: "10 of 5 in 1 s". @param {{most: number, promised: number, window: number}} w */
export const fullest = (w) => `${count(w.most)} of ${count(w.promised)} ${within(w.window)}`;

/** A step between the marks of an axis: 1, 2 or 5 times a power of ten, about `parts` of them. */
export function niceStep(length, parts) {
  const rough = length / parts;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((n) => n * power >= rough);
}
