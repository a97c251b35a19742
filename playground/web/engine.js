/** The page's end of the worker. Answers of runs that are no longer wanted are dropped here. */

let worker = null;
let id = 0;
let link = '';
let handlers;
let ready = false;
let silence = 0; // the timer that ends a worker which does not answer

const PATIENCE_MS = 10_000; // for an answer to a run or to a question
const STOP_MS = 1000; // for an answer to a stop

/** @param {Record<string, Function>} given alive, progress, opened, records, detail, failed, stopped */
export function listen(given) {
  handlers = given;
}

/** Loads the engine, unless it is loaded or on its way. */
function load() {
  if (worker) return;
  worker = new Worker(WORKER_URL);
  worker.onmessage = ({ data }) => receive(data);
  worker.onerror = ({ message }) =>
    receive({
      failed: message
        ? `The engine has stopped. A script may want more memory or depth than there is. ${message}`
        : 'The engine did not load. Is the network there?',
      fatal: true,
    });
}

/** Runs a link. A run under way ends. */
export function run(wanted) {
  link = wanted;
  load();
  worker.postMessage({ run: link, id: ++id });
  expect(PATIENCE_MS);
}

/** Asks for one call of the run: index -1 is the last. */
export function detail(lane, index) {
  if (!worker) return;
  worker.postMessage({ detail: { lane, index }, id });
  expect(PATIENCE_MS);
}

export function stop() {
  if (!worker) return;
  worker.postMessage({ stop: true });
  expect(STOP_MS);
}

export const isLoading = () => worker !== null;

/** Ends the worker unless it is heard in time: a script may hang it. Loading takes as long as it takes. */
function expect(patience) {
  clearTimeout(silence);
  const failed = 'A call of a script did not end, so the engine was ended. Change the script or its calls to go on.';
  if (ready) silence = setTimeout(() => receive({ failed, fatal: true }), patience);
}

function receive(data) {
  clearTimeout(silence);
  if (data.ready) ready = true;
  if (data.fatal) {
    worker.terminate();
    worker = null;
    ready = false;
  } else if (data.alive || data.opened || (data.records && !data.audit.done)) expect(PATIENCE_MS);
  if (data.id !== undefined && data.id !== id) return;
  for (const kind of ['alive', 'progress', 'ready', 'opened', 'records', 'detail', 'failed', 'stopped']) {
    if (kind in data) handlers[kind]?.(data, link);
  }
}
