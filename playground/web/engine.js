/** The page's end of the worker. Answers of runs that are no longer wanted are dropped here. */

let worker = null;
let id = 0;
let link = '';
let handlers;

/** @param {Record<string, Function>} given progress, opened, records, detail, failed */
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
      failed: message ? `The engine has stopped: ${message}` : 'The engine did not load. Is the network there?',
      fatal: true,
    });
}

/** Runs a link. A run under way ends. */
export function run(wanted) {
  link = wanted;
  load();
  worker.postMessage({ run: link, id: ++id });
}

/** Asks for one call of the run: index -1 is the last. */
export const detail = (lane, index) => worker?.postMessage({ detail: { lane, index }, id });

export const stop = () => worker?.postMessage({ stop: true });
export const isLoading = () => worker !== null;

function receive(data) {
  if (data.fatal) {
    worker.terminate();
    worker = null;
  }
  if (data.id !== undefined && data.id !== id) return;
  for (const kind of ['progress', 'ready', 'opened', 'records', 'detail', 'failed']) {
    if (kind in data) handlers[kind]?.(data, link);
  }
}
