'use strict';

const { NoPeer, keyByIP } = require('./address');
const { ArgumentError, ExceedsLimitError, SluiceError, refuse, warn } = require('./errors');
const { subjectOf } = require('./keys');
const { checkBoolean, checkFunction, checkOptions, duration, integer } = require('./options');
const { isText } = require('./scripts');
const { sleep } = require('./time');
const { maxAhead } = require('./wait');

const functions = ['key', 'cost', 'count', 'refuse', 'observe'];

/** A request does not say whom it is counted for. */
class NoKey extends ArgumentError {}

/** Who asked has left while the request was held. */
class Left extends Error {}

/**
 * Returns what decides about a request of a framework: the result, or undefined if it is not limited. It rejects with
 * Left if the client has left.
 */
function admission(limiter, options = {}) {
  checkOptions('middleware', 'the middleware', options, [...functions, 'shadow', 'maxWait', 'maxDelayed']);
  for (const name of functions) if (options[name] !== undefined) checkFunction('middleware', name, options[name]);
  const { count, observe, shadow = false, maxDelayed: left = 1000 } = options;
  checkBoolean('middleware', 'shadow', shadow);
  const places = { left: integer('middleware', 'maxDelayed', left, 1, Infinity) };
  const maxWait = shadow ? 0 : duration('middleware', 'maxWait', options.maxWait ?? 0, 0, 86400e6) / 1e3;
  const charges = chargesOf(limiter, options);
  return async (request, socket, response) => {
    let parts = [];
    let result;
    try {
      parts = partsOf(await charges(request, socket), count);
      if (parts.length === 0) return undefined;
      result = resultOf(await held(parts, maxWait, places, response));
    } catch (error) {
      result = resultOf([], error);
      const kind = error instanceof NoPeer ? '' : 'Redis did not decide, ';
      const outcome = shadow ? 'the request goes on' : `the answer was status ${result.status}`;
      if (result.status >= 500) warn(parts[0]?.limiter.name ?? limiter.name, kind + outcome, error);
    }
    observe?.(request, result);
    if (count && result.status === 0) {
      response.once('finish', () => count(response.statusCode) || giveBack(parts, result.decisions));
    }
    return result;
  };
}

/** Returns the function from a request to its charges. */
function chargesOf(limiter, { key, cost, count }) {
  if (typeof limiter === 'function') {
    const [name] = [key && 'key', cost && 'cost'].filter(Boolean);
    const want = 'none: the charges say whom they are for, and how many permits';
    if (name) throw refuse('middleware', name, undefined, want, `${name}: want ${want}`);
    return limiter;
  }
  if (typeof limiter?.allowN !== 'function') {
    throw refuse('middleware', 'limiter', limiter, 'a limiter with allow(), or a function of the request');
  }
  partsOf([[limiter, 'any']], count);
  const whom = key ?? keyByIP();
  return (request, socket) => {
    const n = cost ? cost(request) : 1;
    return n === 0 ? [] : [[limiter, whom(request, socket), n]];
  };
}

/** Checks the charges of a request. Those of 0 permits are left out. */
function partsOf(charges, count) {
  const want = 'an array of [limiter, whom, permits]';
  if (!Array.isArray(charges)) throw refuse('middleware', 'charges', charges, want);
  const parts = charges.map((charge) => {
    const [limiter, whom, n = 1] = Array.isArray(charge) ? charge : [];
    if (typeof limiter?.allowN !== 'function') throw refuse('middleware', 'charges', limiter ?? charge, want);
    if (count && typeof limiter.giveBack !== 'function') {
      const kinds = 'listLog, zsetLog, sliceRing or quota, which can give back';
      throw refuse(limiter.name, 'count', undefined, kinds, `count: want ${kinds}`);
    }
    return { limiter, values: [whom].flat(), n: integer(limiter.name, 'permits', n, 0, Infinity) };
  });
  return parts.filter(({ n }) => n > 0).map(({ limiter, values, n }) => {
    const isKey = values.length > 0 && values.every((value) => isText(value) && value !== '');
    if (!isKey) throw new NoKey(`${limiter.name}: the request does not say whom it is counted for`);
    return { limiter, subject: subjectOf(...values), n };
  });
}

/** Charges a request, all or none. If it has a place, it is held until its permits come, if that is in time. */
async function held(parts, maxWait, places, response) {
  if (maxWait === 0 || places.left === 0) return ask(parts, 0);
  places.left--;
  const gone = new AbortController();
  const leave = () => gone.abort(new Left());
  response.once('close', leave);
  if (response.destroyed) leave();
  try {
    for (const end = performance.now() + maxWait; ; ) {
      const left = Math.max(end - performance.now(), 0);
      const decisions = await ask(parts, left);
      const granted = decisions.every((decision) => decision.granted);
      const wait = Math.max(...decisions.map((decision) => decision.wait));
      if (wait === 0 || wait > left) return decisions;
      await sleep(wait, gone.signal).catch((reason) => {
        if (granted) giveBack(parts, decisions);
        throw reason;
      });
      if (granted) return decisions;
    }
  } finally {
    places.left++;
    response.off('close', leave);
  }
}

/** Asks once: several all or none, of which only the denials are returned if there are some. */
async function ask(parts, left) {
  const [{ limiter, subject, n }] = parts;
  if (parts.length > 1) {
    const all = await limiter.limits.all(parts.map((part) => [part.limiter, part.subject, part.n]));
    return all.granted ? all.parts : all.denied;
  }
  const question = { n, maxWait: Math.floor(Math.min(left, maxAhead) * 1e3) };
  const books = left > 0 && limiter.books; // one round trip, and first come, first served
  const decision = books
    ? await limiter.decide('allowN', subject, { ...question, id: limiter.idOf() }, {})
    : await limiter.allowN(subject, n);
  return [{ limiter: limiter.name, subject, ...decision }];
}

/** Gives back in the background what limiters granted that can take it. */
function giveBack(parts, decisions) {
  for (const [i, { limiter, subject }] of parts.entries()) {
    const failed = (error) => warn(limiter.name, 'what a request did not use is not given back', error);
    limiter.limits.later(async () => limiter.giveBack?.(subject, decisions[i]).catch(failed));
  }
}

/** Returns the result of decisions, or of an error. Throws what is a mistake of the program. */
function resultOf(decisions, error) {
  const denied = decisions.filter(({ granted }) => !granted);
  const undecided = denied.every(({ degraded, wait }) => degraded && wait === 0);
  const status = error ? statusOf(error) : denied.length === 0 ? 0 : undecided ? 503 : 429;
  const wait = Math.max(0, ...denied.map((decision) => decision.wait));
  const after = wait === 0 || wait === Infinity ? 0 : Math.max(...denied.map((d) => d.retryAfterSeconds));
  const said = denied.length > 0 ? denied : decisions;
  return Object.freeze({ status, decisions: said, retryAfterSeconds: after, ...(error && { error }) });
}

function statusOf(error) {
  if (error instanceof NoKey) return 400;
  if (error instanceof NoPeer) return 500;
  if (error instanceof ExceedsLimitError) return 429;
  if (error instanceof ArgumentError || !(error instanceof SluiceError)) throw error;
  return 503;
}

module.exports = { Left, admission };
