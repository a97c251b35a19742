/** The user's own script: a text to edit, run by a button or Ctrl+Enter, with what Redis would say to it. */
import { EXAMPLE } from './catalog.js';
import { byId, setText } from './dom.js';
import { count, fullest } from './format.js';
import * as state from './state.js';

const editor = byId('own-lua');

export function start() {
  byId('own').addEventListener('submit', (event) => {
    event.preventDefault();
    run();
  });
  editor.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) run();
  });
  state.onChange(take);
  take();
}

/** Takes the script from the state; a lane of its own without a script gets the example. */
function take(changed = ['lua']) {
  if (state.lanes().includes('own') && !state.get('lua')) state.set({ lua: EXAMPLE });
  if (changed.includes('lua')) editor.value = state.get('lua') || EXAMPLE;
  byId('own-panel').open ||= state.lanes().includes('own');
}

function run() {
  const ids = state.lanes();
  const others = ids.filter((id) => id !== 'own').slice(0, state.MAX_LANES - 1);
  state.set({ lua: editor.value, lanes: (ids.includes('own') ? ids : [...others, 'own']).join(',') });
}

/** Says how the own lane did. @param {any} run */
export function show(run) {
  const lane = run.opened.lanes.findIndex(({ id }) => id === 'own');
  const audit = run.audit?.lanes[lane];
  const output = byId('own-result');
  output.classList.toggle('bad', Boolean(audit && (audit.error || audit.windows.some(({ over }) => over))));
  if (!audit) return setText(output, 'Not run yet.');
  const windows = audit.windows.map((window) => `${fullest(window)}: ${window.over ? 'over the limit' : 'held'}`);
  const counts = ['granted', 'booked', 'denied', 'errors'].map((what) => `${count(audit[what])} ${what}`).join(', ');
  setText(output, [audit.error, `Fullest window: ${windows.join('; ')}.`, `${counts}.`].filter(Boolean).join('\n'));
}
