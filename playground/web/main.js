/** Joins the parts: the link, the controls, the engine and the pictures. */
import presets from '../presets.json';
import { forgetPalette } from './canvas.js';
import { atNextFrame, byId, copyText, make, setText } from './dom.js';
import * as engine from './engine.js';
import { bytes, count } from './format.js';
import * as lanes from './lanes.js';
import * as own from './own.js';
import * as report from './report.js';
import { MAX_DECISIONS, Run } from './run.js';
import * as settings from './settings.js';
import * as source from './source.js';
import * as stage from './stage.js';
import * as state from './state.js';
import * as theme from './theme.js';

const DRAW_MS = 80; // between two pictures of a run under way: painting costs more than all else in the page
const DETAIL_MS = 150; // after a run, before its last call is run again: the next run may be on its way
const LINK_MS = 300; // between two changes of the address: browsers refuse more than 100 in half a minute

/** @type {Run | null} the run that is shown */
let shown = null;
/** @type {Run | null} opened, but without records yet: until then the last picture stays */
let next = null;
/** The last call of each lane of the recorded run, until the engine is there. */
let recordedDetails = null;
let drawn = 0;
let linkTimer = 0;
let detailTimer = 0;
let failedParam = '';

function start() {
  source.start();
  report.start();
  lanes.start(showSelected);
  settings.start();
  stage.start();
  makePresets();
  theme.start(() => {
    forgetPalette();
    stage.redraw();
    lanes.redraw();
  });
  engine.listen({ alive: source.showWaiting, progress, ready, opened, records, detail, failed, stopped });
  byId('stop').addEventListener('click', engine.stop);
  byId('copy-link').addEventListener('click', (event) => {
    writeLink();
    copyText(event.target, location.href);
  });
  byId('skip').addEventListener('click', (event) => {
    event.preventDefault(); // the address is the link of the page's state
    byId('lanes-title').focus();
  });
  byId('mend').addEventListener('click', () => (state.forget(failedParam), run()));
  for (const touch of ['pointerdown', 'keydown']) addEventListener(touch, touched, { once: true });
  addEventListener('hashchange', ({ newURL }) => {
    const { hash } = new URL(newURL); // location may have been written since
    if (hash.slice(1) !== state.link()) open(hash);
  });
  state.open(location.hash);
  own.start();
  state.onChange(changed);
  begin();
}

/** Draws the recorded run at once if the link is that of it; any other link is run. */
async function begin() {
  stage.redraw();
  showPreset();
  if (state.link() !== '') return run();
  const recorded = await (await fetch(RECORDED_URL)).json();
  if (next || shown) return;
  shown = new Run('', recorded.opened);
  shown.add({ ...recorded, records: Uint8Array.from(atob(recorded.records), (c) => c.charCodeAt(0)).buffer });
  lanes.show(shown);
  showRun();
  setText(byId('status'), 'A recorded run. Change anything, and your browser runs the scripts.');
  recordedDetails = recorded.detail;
  showSelected();
}

/** The first touch of anything loads the engine, and runs what is shown: from then on each call can be looked at. */
function touched() {
  if (!engine.isLoading()) run();
}

function open(link) {
  state.open(link);
  run();
}

function changed() {
  stage.redraw();
  showPreset();
  run();
}

const run = atNextFrame(() => {
  clearTimeout(detailTimer);
  clearTimeout(linkTimer);
  linkTimer = setTimeout(writeLink, LINK_MS);
  byId('stop').disabled = false;
  engine.run(state.link());
});

function writeLink() {
  clearTimeout(linkTimer);
  const link = state.link();
  if (location.hash.slice(1) !== link)
    history.replaceState(null, '', link ? `#${link}` : location.pathname + location.search);
}

function makePresets() {
  byId('presets').append(
    ...presets.map(({ id, title, text, link }) =>
      make(
        'button',
        { type: 'button', class: 'preset', 'data-preset': id, title: text, onclick: () => open(link) },
        title,
      ),
    ),
  );
}

/** Marks the preset that the state is, and says what it shows. */
function showPreset() {
  const link = state.link();
  const current = presets.find((preset) => state.same(preset.link, link));
  for (const button of document.querySelectorAll('[data-preset]')) {
    button.setAttribute('aria-pressed', String(button.dataset.preset === current?.id));
  }
  setText(
    byId('preset-text'),
    current?.text ??
      'Paint traffic, or begin with one of these. Every lane gets the same calls, and what it granted is audited.',
  );
}

function progress({ progress: { loaded, total } }) {
  const bar = byId('progress');
  bar.hidden = loaded >= total;
  bar.max = total;
  bar.value = loaded;
  setText(
    byId('status'),
    loaded < total ? `Loading the engine: ${bytes(loaded)} of ${bytes(total)}` : 'Starting the engine',
  );
}

function ready() {
  byId('progress').hidden = true;
  setText(byId('status'), 'The engine runs in your browser.');
}

function opened({ opened }, link) {
  showFailure('', '');
  next = new Run(link, opened);
}

function records(message) {
  if (next) {
    shown = next;
    next = recordedDetails = null;
    lanes.show(shown);
    source.showLane(shown.opened.lanes[lanes.selection().lane]);
  }
  shown.add(message);
  const now = performance.now();
  if (!shown.done && now - drawn < DRAW_MS) return;
  drawn = now;
  showRun();
  if (shown.done) detailTimer = setTimeout(showSelected, DETAIL_MS);
}

const showRun = atNextFrame(() => {
  const { audit, done } = shown;
  lanes.redraw();
  stage.align(shown);
  report.show(shown);
  own.show(shown);
  byId('budget').value = audit.decisions;
  byId('stop').disabled = done;
  const ended = audit.stopped ? ', stopped' : audit.cut ? ', cut: shorten it, or lower the rate' : done ? '' : ' ..';
  setText(byId('decisions'), `${count(audit.decisions)} of ${count(MAX_DECISIONS)} decisions${ended}`);
});

function showSelected() {
  const { lane, index } = lanes.selection();
  source.showLane(shown.opened.lanes[lane]);
  if (recordedDetails) {
    if (index < 0 || index === recordedDetails[lane].index) showDetail(lane, recordedDetails[lane]);
  } else if (shown.lanes[lane].length) engine.detail(lane, index);
}

function detail({ detail, lane }) {
  if (lane === lanes.selection().lane) showDetail(lane, detail);
}

function showDetail(lane, call) {
  if (!call || call.index >= shown.lanes[lane].length) return;
  source.showCall(shown.opened.lanes[lane], call, lanes.callText(lane, call.index));
}

function failed({ failed: text, param, fatal }) {
  next = null;
  byId('progress').hidden = true;
  byId('stop').disabled = true;
  if (fatal) setText(byId('status'), 'The engine is not running.');
  showFailure(text, fatal ? '' : (param ?? /^\w+/.exec(text)?.[0] ?? ''));
}

/** There was nothing to stop. */
function stopped() {
  byId('stop').disabled = true;
}

/** Says what is wrong with the link, and offers to take that out of it. */
function showFailure(text, param) {
  failedParam = param;
  byId('failure').hidden = !text;
  setText(byId('failure-text'), text);
  byId('mend').hidden = !param;
  setText(byId('mend'), `Take ${param} out of the link`);
  settings.show(param);
}

window.playground = { result: () => shown?.result() ?? null };
start();
