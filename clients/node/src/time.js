'use strict';

// Scripts count in microseconds, and callers in milliseconds. Doubles hold both exactly: milliseconds since 1970 have
// a resolution of 0.00025 ms.

const units = { us: 1, ms: 1e3, s: 1e6, m: 6e7, h: 3.6e9, d: 8.64e10 };
const oneDuration = /(\d+(?:\.\d+)?)(us|ms|s|m|h|d)/g;
const durations = /^(?:\d+(?:\.\d+)?(?:us|ms|s|m|h|d))+$/;

/** Returns a duration ("1m30s", or milliseconds) in microseconds: NaN if it is not a whole number of them. */
function toMicros(duration) {
  if (typeof duration === 'number') return whole(duration * 1000, duration);
  if (typeof duration !== 'string' || !durations.test(duration)) return NaN;
  let sum = 0;
  for (const [, count, unit] of duration.matchAll(oneDuration)) sum += whole(count * units[unit], count);
  return sum;
}

/** Rounds what a product of doubles is off by, and no more. */
function whole(micros, size) {
  const rounded = Math.round(micros);
  return Math.abs(micros - rounded) <= Math.abs(micros) * 1e-15 && Number.isFinite(Number(size)) ? rounded : NaN;
}

/** Writes microseconds for people and for names: 60000000 is "1m", 90000000 "1m30s". */
function span(micros) {
  if (micros < 1e3) return `${micros}us`;
  if (micros < 1e6) return `${micros / 1e3}ms`;
  const hours = Math.floor(micros / units.h);
  const minutes = Math.floor((micros % units.h) / units.m);
  const text = `${(micros % units.m) / units.s}s`;
  const long = hours > 0 ? `${hours}h${minutes}m${text}` : minutes > 0 ? `${minutes}m${text}` : text;
  return long.replace(/m0s$/, 'm').replace(/h0m$/, 'h');
}

const longestTimer = 2 ** 31 - 1; // of setTimeout, in milliseconds

const followers = new WeakMap(); // by signal, what to call when it is aborted

/** Calls work when the signal is aborted, unless the function that it returns was called. One listener for all. */
function onAbort(signal, work) {
  if (!signal) return () => {};
  if (!followers.has(signal)) {
    const all = new Set();
    const tell = () => all.forEach((each) => each());
    signal.addEventListener('abort', tell, { once: true });
    followers.set(signal, Object.assign(all, { tell }));
  }
  const all = followers.get(signal);
  all.add(work);
  return () => {
    if (!all.delete(work) || all.size > 0) return;
    signal.removeEventListener('abort', all.tell);
    followers.delete(signal);
  };
}

/** Resolves after so many milliseconds, never earlier. Rejects with the signal's reason as soon as it is aborted. */
async function sleep(ms, signal) {
  for (const end = performance.now() + ms; ; ) {
    signal?.throwIfAborted();
    const left = end - performance.now();
    if (left <= 0) return;
    await oneTimer(Math.min(Math.ceil(left), longestTimer), signal);
  }
}

function oneTimer(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      off();
      resolve();
    };
    const timer = setTimeout(done, ms);
    const off = onAbort(signal, done);
  });
}

/** Waits so many milliseconds, but does not keep the process alive. */
const restOf = (ms) => new Promise((resolve) => setTimeout(resolve, ms).unref());

/** Returns a random time between half of ms and ms. */
const jitter = (ms) => ms / 2 + (Math.random() * ms) / 2;

module.exports = { toMicros, span, onAbort, sleep, restOf, jitter, longestTimer };
