'use strict';

const { refuse } = require('./errors');
const { argumentOf } = require('./scripts');
const { toMicros, span } = require('./time');

// What is wrong with the options of a limiter is found when the limiter is made.

const day = 86400e6; // microseconds
const minWindow = 1e3;

/** Throws if there is an option that the limiter or the call does not have. */
function checkOptions(limiter, kind, options, known) {
  if (options === null || typeof options !== 'object') throw refuse(limiter, 'options', options, 'an object');
  for (const [name, value] of Object.entries(options)) {
    if (known.includes(name) || value === undefined) continue;
    throw refuse(limiter, name, undefined, known.join(', '), `${name} is not an option of ${kind}`);
  }
  const { signal } = options;
  if (signal && typeof signal.throwIfAborted !== 'function') throw refuse(limiter, 'signal', signal, 'an AbortSignal');
}

function checkBoolean(limiter, argument, value) {
  if (typeof value !== 'boolean') throw refuse(limiter, argument, value, 'true or false');
}

function checkFunction(limiter, argument, value) {
  if (typeof value !== 'function') throw refuse(limiter, argument, value, 'a function of the request');
}

/** Returns a whole number, or throws. */
function integer(limiter, argument, value, min, max, more = '') {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
  const want = max === Infinity ? `a whole number, ${min} or more` : `a whole number, ${min} to ${max}`;
  throw refuse(limiter, argument, value, want + more);
}

/** Returns a duration in microseconds, or throws. */
function duration(limiter, argument, value, min, max) {
  const micros = toMicros(value);
  if (micros >= min && micros <= max) return micros;
  const days = max >= 2 * day && max % day === 0 ? `${max / day} days` : span(max);
  throw refuse(limiter, argument, value, `${span(min)} to ${days}, in whole microseconds, as "1m" or in milliseconds`);
}

/** Returns a limit as it is sent: the window in microseconds. maxWindow is for rings, whose scripts see slices. */
function limitOf(name, kind, script, { permits, window, burst }, maxWindow) {
  const upper = argumentOf(script, 'limit', 'rate', 'limit_i').max;
  integer(name, 'permits', permits, 0, upper, kind.larger);
  const longest = maxWindow ?? argumentOf(script, 'window', 'interval').max;
  if (permits === 0 && window === undefined) return { permits, window: minWindow, burst };
  const limit = { permits, window: duration(name, 'window', window, minWindow, longest), burst };
  if (burst !== undefined) checkBurst(name, script, limit);
  return limit;
}

/** A burst must be refilled within 2^52 microseconds: the script's rule. */
function checkBurst(name, script, { permits, window, burst }) {
  integer(name, 'burst', burst, 1, argumentOf(script, 'burst').max);
  const upper = permits > 0 ? (2n ** 52n * BigInt(permits)) / BigInt(window) : BigInt(burst);
  if (BigInt(burst) > upper) {
    throw refuse(name, 'burst', burst, `up to ${upper} with ${permits} permits in ${span(window)}`);
  }
}

module.exports = { checkOptions, checkBoolean, checkFunction, integer, duration, limitOf, minWindow };
