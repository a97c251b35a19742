/** The settings: a slider with an exact input beside it, a select, or a text, for each parameter of the link. */
import { byId, make } from './dom.js';
import { parseDuration } from './format.js';
import * as state from './state.js';

const RATES = [
  0, 0.1, 0.2, 0.5, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 40, 50, 80, 100, 150, 200, 300, 500, 800, 1000, 2000, 5000,
  10000,
];
const COUNTS = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 40, 50, 80, 100, 150, 200, 300, 500, 800, 1000];
const PERMITS = [...COUNTS, 2000, 5000, 10000, 20000, 50000, 100000];
const TIMES = [
  '100ms',
  '200ms',
  '500ms',
  '1s',
  '2s',
  '3s',
  '5s',
  '10s',
  '15s',
  '30s',
  '1m',
  '2m',
  '5m',
  '10m',
  '30m',
  '1h',
  '6h',
  '24h',
];

const PERCENT = [0, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 100];

/** name, label, steps of the slider (or choices, or nothing), unit or example */
const MAIN = [
  ['rate', 'Rate', RATES, 'calls a second'],
  ['burstiness', 'Burstiness', [0, ...COUNTS.filter((n) => n <= 100)], '0 even, 1 random'],
  ['clients', 'Clients', COUNTS, ''],
  ['cost', 'Cost', COUNTS, 'permits a call'],
  ['permits', 'Limit', PERMITS, 'permits'],
  ['window', 'Window', TIMES, '500ms, 1m, ..'],
  ['for', 'Length', TIMES, 'of the traffic'],
];
const MORE = [
  ['denied', 'Denied clients', { leave: 'leave', wait: 'wait as told', poll: 'poll' }],
  ['tries', 'Tries at most', COUNTS.filter((n) => n <= 100), 'with the first'],
  ['every', 'Poll every', ['10ms', '20ms', '50ms', '100ms', '200ms', '500ms', '1s', '2s', '5s'], ''],
  ['ahead', 'Book ahead', ['0s', '100ms', '200ms', '500ms', '1s', '2s', '5s', '10s', '30s', '60s'], 'at most'],
  ['key', 'Key', { one: 'one for all clients', client: 'one per client' }],
  ['noisy', 'Noisy client', PERCENT, '% from client 1'],
  ['costmax', 'Cost up to', null, 'empty: as cost'],
  ['burst', 'Burst of gcra', null, 'empty: the limit'],
  ['permits2', 'Second limit', null, 'rings, budget'],
  ['window2', 'Second window', null, 'such as 1m'],
  [
    'skew',
    'Clock skew',
    ['0s', '10ms', '50ms', '100ms', '200ms', '500ms', '1s', '2s', '5s', '10s'],
    'of clients, at most',
  ],
  ['step', 'Clock steps', null, 'at:by, as 4s:-10s'],
  ['bunch', 'Bunches', null, 'period:calls, as 5s:10'],
  ['seed', 'Seed', null, 'of all randomness'],
];

/** What follows a grant: of a slot, of a budget, of permits that are given back, of a process that reports it. */
const AFTER = [
  ['hold', 'Works for', TIMES, 'at least'],
  ['holdmax', 'Works up to', null, 'empty: the same'],
  ['ttl', 'Lease', TIMES, 'slot, budget’s ID'],
  ['lost', 'Die', PERCENT, '% of holders'],
  ['actual', 'Actual cost', null, '% of estimate'],
  ['actualmax', 'Actual up to', null, 'empty: the same'],
  ['unused', 'Given back', PERCENT, '% of granted'],
  ['processes', 'Processes', COUNTS.filter((n) => n <= 100), 'that grant ahead'],
  ['error', 'Error', [1, 2, 5, 10, 20, 50, 100], '% of limit, of ahead'],
];

/** @type {Map<string, (invalid: string) => void>} what shows a parameter */
const controls = new Map();

export function start() {
  byId('sliders').append(...MAIN.map(control));
  byId('more').append(...MORE.map(control));
  byId('after').append(...AFTER.map(control));
  state.onChange(() => show());
  show();
}

/** Shows all values. @param {string} [invalid] the parameter that the engine refused */
export function show(invalid = '') {
  for (const showOne of controls.values()) showOne(invalid);
}

/** Moves the focus to a parameter's input, if it has one. */
export function focus(name) {
  const input = byId(`set-${name}`);
  if (!input) return false;
  if (input.closest('details')) input.closest('details').open = true;
  input.focus();
  return true;
}

function control([name, label, steps, hint]) {
  const id = `set-${name}`;
  const title = make('label', { for: id }, label);
  if (steps && !Array.isArray(steps)) return make('div', { class: 'control' }, title, choice(id, name, steps));
  const input = make('input', {
    id,
    type: 'text',
    inputmode: typeof steps?.[0] === 'number' ? 'decimal' : null,
    autocomplete: 'off',
    spellcheck: 'false',
    'aria-describedby': hint && `${id}-hint`,
    onchange: () => state.set({ [name]: input.value.trim() || state.DEFAULTS[name] }),
  });
  const parts = [title, input, make('span', { class: 'hint', id: `${id}-hint` }, hint)];
  const range = Array.isArray(steps) ? slider(name, label, steps) : null;
  if (range) parts.push(range);
  controls.set(name, (invalid) => {
    if (document.activeElement !== input || input.value.trim() !== state.get(name)) input.value = state.get(name);
    input.toggleAttribute('aria-invalid', name === invalid);
    if (name === invalid) input.setAttribute('aria-invalid', 'true');
    if (range) place(range, steps, state.get(name));
  });
  return make('div', { class: 'control' }, ...parts);
}

function choice(id, name, choices) {
  const select = make('select', { id, onchange: () => state.set({ [name]: select.value }) });
  select.append(...Object.entries(choices).map(([value, text]) => make('option', { value }, text)));
  controls.set(name, () => (select.value = state.get(name)));
  return select;
}

function slider(name, label, steps) {
  const range = make('input', {
    type: 'range',
    min: 0,
    max: steps.length - 1,
    step: 1,
    'aria-label': `${label}, slider`,
    'data-slider': name,
    oninput: () => state.set({ [name]: String(steps[range.value]) }),
  });
  return range;
}

/** Puts a slider at the step that is nearest to the value, and says the value itself. */
function place(range, steps, value) {
  const read = (step) => (typeof step === 'number' ? step : parseDuration(step));
  const wanted = typeof steps[0] === 'number' ? Number(value) : parseDuration(value);
  let best = 0;
  for (const [i, step] of steps.entries()) {
    if (Math.abs(read(step) - wanted) < Math.abs(read(steps[best]) - wanted)) best = i;
  }
  range.value = best;
  range.setAttribute('aria-valuetext', value);
}
