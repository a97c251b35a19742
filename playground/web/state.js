/**
 * The state of the page: the parameters of the link, as text. The engine checks them; the page only needs to read the
 * few that it draws. What equals its default is left out of the link.
 */
import { parseDuration } from './format.js';

export const DEFAULTS = {
  lanes: 'list_log,fixed_window',
  permits: '5',
  window: '1s',
  permits2: '',
  window2: '',
  burst: '',
  ahead: '0s',
  for: '10s',
  rate: '8',
  burstiness: '1',
  clients: '10',
  noisy: '0',
  key: 'one',
  cost: '1',
  costmax: '',
  denied: 'leave',
  every: '100ms',
  tries: '10',
  skew: '0s',
  step: '',
  bunch: '',
  paint: '',
  calls: '',
  seed: '1',
  lua: '',
  hold: '500ms',
  holdmax: '',
  actual: '100',
  actualmax: '',
  lost: '0',
  unused: '0',
  ttl: '30s',
  processes: '4',
  error: '20',
};
export const MAX_LANES = 6;
export const MAX_CALLS = 500;
const BINS = 100;
const FLAT = 10; // the bin's value that leaves the rate as it is

/** @type {Record<string, string>} */
const values = { ...DEFAULTS };
/** @type {Record<string, string>} parameters that the page does not know: the engine says what is wrong with them */
let unknown = {};
const listeners = new Set();

export const get = (name) => values[name];
const isDefault = (name) => values[name] === DEFAULTS[name];

/** Sets parameters and tells the listeners, unless nothing changed. @param {Record<string, string>} changes */
export function set(changes) {
  const changed = Object.keys(changes).filter((name) => values[name] !== changes[name]);
  if (changed.length === 0) return;
  for (const name of changed) values[name] = changes[name];
  for (const listener of listeners) listener(changed);
}

/** Calls listener with the names of the parameters that changed. */
export const onChange = (listener) => listeners.add(listener);

/** The state as a link: what the engine takes, and what stands behind the "#". */
export function link() {
  const params = new URLSearchParams();
  for (const name of Object.keys(DEFAULTS)) if (!isDefault(name)) params.set(name, values[name]);
  for (const [name, value] of Object.entries(unknown)) params.append(name, value);
  return params.toString();
}

/** Takes the whole state from a link. @param {string} text */
export function open(text) {
  const params = new URLSearchParams(text.replace(/^#/, ''));
  const next = { ...DEFAULTS };
  unknown = Object.create(null);
  const seen = new Set(); // what comes twice is for the engine to refuse
  for (const [name, value] of params) {
    (Object.hasOwn(DEFAULTS, name) && !seen.has(name) ? next : unknown)[name] = value;
    seen.add(name);
  }
  set(next);
}

/** Takes a parameter out of the link, known or not. */
export function forget(name) {
  delete unknown[name];
  if (Object.hasOwn(DEFAULTS, name)) set({ [name]: DEFAULTS[name] });
}

export const lanes = () => values.lanes.split(',').filter(Boolean);
export const length = () => positive(parseDuration(values.for), 10e6);
export const rate = () => positive(Number(values.rate), 0);

/** The times of the single calls. */
export const calls = () => (values.calls ? values.calls.split(',').map(parseDuration) : []);

/** The painted bins: each multiplies the rate by its value / 10. @returns {number[]} */
export function bins() {
  if (!values.paint) return Array(BINS).fill(FLAT);
  return [...values.paint].map((digit) => positive(parseInt(digit, 36), 0));
}

/** @param {number[]} painted */
export function setBins(painted) {
  const flat = painted.every((value) => value === FLAT);
  set({ paint: flat ? '' : painted.map((value) => value.toString(36)).join('') });
}

const positive = (n, fallback) => (n > 0 ? n : fallback);

/** Reports whether two links say the same, in whatever order and with whatever defaults. */
export function same(a, b) {
  const canonical = (text) => {
    const params = new URLSearchParams(text);
    return Object.keys(DEFAULTS)
      .map((name) => params.get(name) ?? DEFAULTS[name])
      .join('\n');
  };
  return canonical(a) === canonical(b);
}
