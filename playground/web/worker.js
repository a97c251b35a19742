/**
 * Runs the engine beside the page. Page -> worker: {run: link, id}, {detail: {lane, index}, id}, {stop: true}.
 * Worker -> page: {progress}, {ready}, {opened, id}, {records, audit, stored, id}, {detail, id}, {failed, id},
 * {stopped} if nothing ran, {alive} while a call that was asked for takes long.
 */
import 'wasm_exec';

const STEP_MS = 12; // of the engine at a time: between two steps new messages get through
const POST_MS = 30; // between two messages of records
const ALIVE_MS = 1000;
const STORED_MS = 120; // between two looks at what is stored
const BATCH = 2048; // records that one step may write
const RECORD = 64; // bytes

const into = new Uint8Array(BATCH * RECORD);
const turns = new MessageChannel();
let loading = null;
let wanted = null; // the run that begins with the next turn
let asked = null; // the last call that the page asked for: with more of them, the others are out of date
let told = 0; // when the page was last told that this is alive
let running = null; // { id, lanes, parts, posted, stored }

turns.port1.onmessage = turn;

onmessage = ({ data }) => {
  if (data.run !== undefined) wanted = data;
  if (data.detail) asked = data;
  if (data.stop) stop();
  loading ??= load();
  loading.then(
    () => turns.port2.postMessage(0),
    (error) => end(`The engine did not load: ${error.message}`),
  );
};

/** Tells the page that this worker is of no use any more. */
const end = (failed) => postMessage({ failed, fatal: true });

async function load() {
  const response = await fetch(ENGINE.url);
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  const counted = response.body.pipeThrough(counter());
  const go = new Go();
  const headers = { 'Content-Type': 'application/wasm' };
  const { instance } = await WebAssembly.instantiateStreaming(new Response(counted, { headers }), go.importObject);
  go.run(instance).then(() => end('The engine has ended. The next change starts it again.'));
  postMessage({ ready: true });
}

/** Tells the page how much has come. The size is known since the build: a compressed transfer does not say it. */
function counter() {
  let loaded = 0;
  let posted = 0;
  return new TransformStream({
    transform(chunk, controller) {
      controller.enqueue(chunk);
      loaded += chunk.length;
      if (loaded < ENGINE.bytes && performance.now() - posted < POST_MS) return;
      posted = performance.now();
      postMessage({ progress: { loaded, total: ENGINE.bytes } });
    },
  });
}

/** Begins what is wanted, or goes on with what runs and what is asked for: one step of each. */
function turn() {
  if (wanted) begin();
  if (asked) detail();
  if (running) step();
  if (running || asked) turns.port2.postMessage(0);
}

function step() {
  const written = sluice.step(into, STEP_MS);
  if (written > 0) running.parts.push(into.slice(0, written * RECORD));
  const now = performance.now();
  const done = written === 0;
  if (done || now - running.posted >= POST_MS) post(now, done);
  if (done) running = null;
}

function begin() {
  const { run, id } = wanted;
  wanted = asked = running = null;
  const opened = JSON.parse(sluice.open(run));
  if (opened.error) return postMessage({ failed: opened.error, param: opened.parameter, id });
  postMessage({ opened, id });
  running = { id, lanes: opened.lanes.length, parts: [], posted: 0, stored: 0 };
}

function stop() {
  wanted = asked = null;
  if (!running) return postMessage({ stopped: true });
  post(performance.now(), true, true); // the run stays open: its calls can be looked at
  running = null;
}

function post(now, last, stopped = false) {
  const { id, lanes, parts } = running;
  const records = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let end = 0;
  for (const part of parts) {
    records.set(part, end);
    end += part.length;
  }
  const audit = JSON.parse(sluice.audit());
  if (stopped) audit.stopped = true;
  audit.done ||= last;
  let stored;
  if (last || now - running.stored >= STORED_MS) {
    stored = Array.from({ length: lanes }, (_, lane) => JSON.parse(sluice.stored(lane)));
    running.stored = now;
  }
  running.parts = [];
  running.posted = now;
  postMessage({ records: records.buffer, audit, stored, id }, [records.buffer]);
}

/** The calls before it are made again, which may take many turns. */
function detail() {
  const {
    detail: { lane, index },
    id,
  } = asked;
  const text = sluice.detail(lane, index, STEP_MS);
  if (!text) return alive();
  asked = null;
  const answer = JSON.parse(text);
  if (answer.lines) postMessage({ detail: answer, lane, id });
}

/** Tells the page from time to time that something long is on its way. */
function alive() {
  const now = performance.now();
  if (now - told < ALIVE_MS) return;
  told = now;
  postMessage({ alive: true });
}
