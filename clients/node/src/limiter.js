'use strict';

const { randomBytes } = require('node:crypto');
const errors = require('./errors');
const { checkOptions, checkBoolean, integer, duration, limitOf } = require('./options');
const { ringOf, statesOf, windowsOf } = require('./ring');
const { argsOf, argumentOf, checkName, checkSubject, keysOf, scriptOf } = require('./scripts');
const { sleep, jitter } = require('./time');

const maxAhead = 60e3; // milliseconds: how far ahead the scripts book
const longestWait = Number.MAX_SAFE_INTEGER; // microseconds
const limit = ['permits', 'window', 'onFailure', 'timeout'];
const waits = [...limit, 'maxWait'];

/** What the limiters of each script are. larger says, in errors, which limiters take more. */
const kinds = {
  listLog: { script: 'list_log_v1', options: waits, larger: '; gcra and sliceRing hold more' },
  zsetLog: { script: 'zset_log_v1', ids: true, options: waits, larger: '; listLog, gcra and sliceRing hold more' },
  gcra: { script: 'gcra_v1', options: [...waits, 'burst'], larger: '; sliceRing holds more' },
  tokenBucket: { script: 'token_bucket_v1', options: [...waits, 'clientId', 'perClient'], larger: '; gcra holds more' },
  sliceRing: { script: 'slice_ring_v1', options: [...waits, 'windows', 'slice'] },
  quota: { script: 'quota_v1', options: ['permits', 'period', 'zone', 'onFailure', 'timeout', 'maxWait'] },
  budget: { script: 'budget_v1', options: [...limit, 'windows', 'slice', 'settleWithin'], amount: 'estimate' },
  concurrency: { script: 'concurrency_v1', options: ['slots', 'ttl', 'onFailure', 'timeout', 'maxWait'] },
};

const { refuse } = errors;
const none = Object.freeze({}); // options

/** A new random id: 22 characters of 128 bits. */
const newId = () => randomBytes(16).toString('base64url');

/** What all limiters have. limits is the Limits that made it. */
class Limiter {
  constructor(limits, method, name, options) {
    const kind = { method, ...kinds[method] };
    checkName('limiter', name);
    checkOptions(name, method, options, kind.options);
    const { onFailure = limits.onFailure, timeout = limits.timeout, maxWait } = options;
    checkFailure(name, onFailure);
    Object.assign(this, { limits, kind, name, onFailure, script: scriptOf(kind.script), values: {} });
    this.timeout = checkTimeout(name, timeout ?? (onFailure === 'error' ? 1000 : 100));
    this.maxWait = Infinity;
    this.maxWait = this.ahead(maxWait);
    this.configure(options);
  }

  configure(options) {
    const limit = limitOf(this.name, this.kind, this.script, options);
    this.capacity = limit.permits;
    this.values = { limit: limit.permits, window: limit.window };
    this.limit = Object.freeze({ permits: limit.permits, window: limit.window / 1e3 });
  }

  /** Asks for one permit now. */
  allow(subject, options) {
    return this.allowN(subject, 1, options);
  }

  /** Asks for n permits now, all or none. */
  allowN(subject, n, options = none) {
    try {
      const { id } = this.check('allowN', options, 'id');
      return this.decide('allowN', subject, { n, maxWait: 0, id: this.idOf(id) }, options);
    } catch (error) {
      return Promise.reject(error); // an async function would make one promise more
    }
  }

  /** Says what could be granted now, and changes nothing. */
  async peek(subject, options = none) {
    return this.decide('peek', subject, { n: 0, maxWait: 0, id: '' }, this.check('peek', options));
  }

  /** Gives the subject its whole limit back. */
  async reset(subject, options = {}) {
    this.check('reset', options);
    const keys = this.resets(subject);
    await this.limits.caller.command(['unlink', ...keys], keys[0], this.bounds(options));
  }

  /** Returns the keys that reset() removes. */
  resets(subject) {
    return this.grantKeys(subject);
  }

  /** Returns the keys that a grant is counted under. */
  grantKeys(subject) {
    return this.keys(subject);
  }

  /** Returns when n permits may be used. It books them, or sleeps and asks again where that is not possible. */
  async wait(subject, options = {}) {
    return waitFor(this, subject, this.check('wait', options, 'n', 'maxWait', 'id'));
  }

  /** Returns the options of a call, if it has no others. */
  check(method, options, ...known) {
    if (options === none) return options;
    const names = ['signal', ...known].filter((name) => name !== 'id' || this.kind.ids);
    checkOptions(this.name, `${this.kind.method}.${method}`, options, names);
    return options;
  }

  /** Returns how many milliseconds a call may wait: its own maxWait, or the limiter's. */
  ahead(maxWait) {
    return maxWait === undefined ? this.maxWait : duration(this.name, 'maxWait', maxWait, 0, longestWait) / 1e3;
  }

  bounds({ signal, timeout = this.timeout }) {
    return { timeout, signal };
  }

  keys(subject, values = this.values) {
    return keysOf(this.script, { prefix: this.limits.prefix, name: this.name }, subject, values, this.ring?.groups);
  }

  /** Returns the id of a call, of scripts that have one. */
  idOf() {
    return undefined;
  }

  /** Asks for a decision: by Redis, or by the policy if Redis does not decide. */
  async decide(method, subject, question, options) {
    if (method !== 'peek') this.checkNumber(method, question.n);
    if (this.capacity === 0) return this.never(subject);
    try {
      const reply = await this.ask(subject, question, this.bounds(options));
      return this.decision(reply, question.n, question.id, question.key);
    } catch (error) {
      if (options.signal?.aborted) throw error;
      return this.fallBack(error, subject, question);
    }
  }

  checkNumber(method, n) {
    const { name, kind: { amount: argument = 'n' } } = this;
    integer(name, argument, n, 1, Infinity);
    this.most ??= Math.min(this.capacity || Infinity, argumentOf(this.script, 'permits').max);
    if (this.capacity === 0 || n <= this.most) return;
    const upper = this.most;
    const message = `${name}: ${method}(${n}) exceeds limit ${upper}`;
    throw new errors.ExceedsLimitError(message, { limiter: name, argument, value: n, want: `up to ${upper}` });
  }

  /** Resolves with the reply to a question, on which it notes the key. */
  ask(subject, question, { timeout, signal }) {
    const { n, maxWait, id } = question;
    const keys = this.keys(subject, id === undefined ? this.values : { ...this.values, id });
    question.key = keys[0];
    const options = { timeout, signal, repeats: id !== undefined, peeks: n === 0 };
    return this.limits.caller.run(this.script, keys, this.args(n, maxWait, id), options);
  }

  /** Returns the ARGV of a question. It is often that of the last one. */
  args(n, maxWait, id) {
    const { last } = this;
    if (last?.n === n && last.maxWait === maxWait && last.id === id) return last.args;
    const values = { ...this.values, permits: n, max_wait: maxWait, id };
    this.last = { n, maxWait, id, args: argsOf(this.script, values, this.ring?.groups) };
    return this.last.args;
  }

  /** Makes a decision of the five integers that all scripts reply. Its times are in milliseconds. */
  decision(reply, n, id, key) {
    const [granted, remaining, wait, resetAfter, now] = reply;
    const decision = this.answer(granted > 0, granted > 0 ? n : 0, remaining, wait / 1e3, resetAfter / 1e3);
    decision.now = now / 1e3;
    if (granted > 0) {
      decision.key = key;
      if (id) decision.id = id;
      if (this.ring) decision.rings = this.ring.slices;
    }
    if (reply.length > 5) this.detail(decision, reply.slice(5), resetAfter, now);
    return Object.freeze(decision);
  }

  /** Adds what the script replies beyond that. */
  detail() {}

  /** Makes a decision of what all have. It is frozen when it has the rest. */
  answer(granted, permits, remaining, wait, resetAfter, degraded = false) {
    const seconds = Math.ceil(Math.min(wait, longestRetry) / 1e3);
    const retryAfterSeconds = Math.max(seconds, degraded && !granted ? 1 : 0);
    return { granted, permits, remaining, wait, resetAfter, limit: this.limit, degraded, retryAfterSeconds };
  }

  /** Denies without asking. */
  never(subject) {
    checkSubject(this.name, subject);
    return Object.freeze(this.answer(false, 0, 0, Infinity, 0));
  }

  /** What a decision says of its windows. */
  describe() {
    return {};
  }

  /** Lets the policy decide, unless a healthy Redis would have failed too. */
  fallBack(cause, subject, { n, maxWait }) {
    const undecided = [errors.OutcomeUnknownError, errors.UnavailableError];
    if (this.onFailure === 'error' || !undecided.some((kind) => cause instanceof kind)) throw cause;
    const outcome = this.decideLocally(this.keys(subject)[0], n, maxWait / 1e3);
    if (outcome === undefined) throw cause;
    errors.warn(this.name, `Redis did not decide, onFailure is ${errors.show(this.onFailure)}`, cause);
    const { granted, wait, states } = outcome;
    const remaining = Math.min(...states.map((state) => state.remaining));
    const resetAfter = Math.max(...states.map((state) => state.resetAfter));
    const decision = this.answer(granted, granted ? n : 0, remaining, wait, resetAfter, true);
    return Object.freeze(Object.assign(decision, this.describe(states), { cause }));
  }

  decideLocally(key, n, maxWait) {
    const toMillis = ({ permits, window }) => ({ permits, window: window / 1e3 });
    const windows = this.ring?.limits.map(toMillis) ?? [{ ...this.limit, burst: this.capacity }];
    const { local: share } = this.onFailure;
    if (share) return this.limits.local.decide(key, windows, share, n, maxWait);
    const open = this.onFailure === 'open';
    const stateOf = ({ permits, burst = permits }) => ({ remaining: open ? burst : 0, resetAfter: 0 });
    return { granted: open && n > 0, wait: 0, states: windows.map(stateOf) };
  }
}

const longestRetry = 31622400e3; // milliseconds: 366 days

/** Returns the timeout of one question of a call that may take so long, and has so much left. */
function timeoutWithin({ timeout }, allowed, left) {
  return allowed === 0 ? timeout : Math.min(timeout, Math.max(left, 1)); // with 0 it asks once
}

/** Asks until n permits may be used, or until waiting does not help. Unused permits go back in the background. */
async function waitFor(limiter, subject, { n = 1, maxWait, signal, id: ownId }) {
  const id = limiter.idOf(ownId);
  const allowed = limiter.ahead(maxWait);
  const end = performance.now() + allowed;
  const left = () => Math.max(end - performance.now(), 0);
  const unused = (decision) => {
    if (!decision.granted || !limiter.giveBack || ownId !== undefined) return; // the caller may ask again with the id
    limiter.limits.later(() => limiter.giveBack(subject, decision, n));
  };
  for (let failures = 0; ; ) {
    const maxWait = limiter.books ? Math.floor(Math.min(left(), maxAhead) * 1e3) : 0;
    const timeout = timeoutWithin(limiter, allowed, left());
    try {
      const decision = await limiter.decide('wait', subject, { n, maxWait, id }, { signal, timeout });
      if (decision.degraded && !decision.granted && decision.wait === 0) throw decision.cause;
      await sleepFor(limiter, decision, { left: left(), allowed, signal }).catch((error) => {
        unused(decision);
        throw error;
      });
      if (decision.granted) return decision;
      failures = 0;
    } catch (error) {
      const lost = error instanceof errors.OutcomeUnknownError && id !== undefined;
      const mayHelp = lost || error instanceof errors.UnavailableError;
      const pause = jitter(Math.min(10 << Math.min(++failures, 5), 250));
      if (end === Infinity || left() <= pause || signal?.aborted || !mayHelp) {
        if (lost) unused({ granted: true, permits: n, id });
        throw error;
      }
      await sleep(pause, signal);
    }
  }
}

/** Sleeps until the permits of a decision may be used, or until it is time to ask again. */
async function sleepFor({ name, books }, { granted, wait }, { left, allowed, signal }) {
  if (wait === Infinity) {
    throw new errors.WaitError(`${name}: wait would never end: the limit is 0`, { limiter: name, wait });
  }
  if (wait > left) {
    const why = `wait of ${Math.round(wait)} ms would exceed maxWait ${allowed} ms`;
    throw new errors.WaitError(`${name}: ${why}`, { limiter: name, wait, maxWait: allowed });
  }
  await sleep(granted ? wait : Math.max(wait - (books ? maxAhead : 0), 1), signal);
}

/** A limiter that books ahead. */
class Reserver extends Limiter {
  get books() {
    return true;
  }

  /** Books n permits for the earliest time at which they may be used. */
  async reserve(subject, options = {}) {
    const { n = 1, maxWait, signal, id } = this.check('reserve', options, 'n', 'maxWait', 'id');
    const micros = Math.floor(Math.min(this.ahead(maxWait), maxAhead) * 1e3);
    const decision = await this.decide('reserve', subject, { n, maxWait: micros, id: this.idOf(id) }, { signal });
    return new Reservation(this, subject, decision);
  }
}

/** A booking that reserve() has made, or could not make: ask ok first. */
class Reservation {
  constructor(limiter, subject, decision) {
    Object.assign(this, { limiter, subject, decision, due: performance.now() + decision.wait, cancelled: false });
  }

  /** Whether the permits were booked. */
  get ok() {
    return this.decision.granted;
  }

  /** The milliseconds from now until the permits may be used. */
  get delay() {
    return this.ok ? Math.max(this.due - performance.now(), 0) : Infinity;
  }

  /** Returns when the permits may be used. */
  async wait(options = {}) {
    const { signal } = this.limiter.check('reserve', options);
    if (!this.ok) {
      const { name } = this.limiter;
      throw new errors.WaitError(`${name}: the reservation is not ok`, { limiter: name, wait: this.decision.wait });
    }
    await sleep(this.delay, signal);
  }

  /** Gives the permits back, unless they are due. */
  async cancel(options) {
    const { name, kind, giveBack: canGiveBack } = this.limiter;
    const why = `${kind.method} cannot give permits back, listLog and zsetLog can`;
    if (!canGiveBack) throw refuse(name, 'cancel', undefined, 'listLog or zsetLog', why);
    if (!this.ok || this.cancelled || this.delay === 0) return;
    this.cancelled = true;
    try {
      await this.limiter.giveBack(this.subject, this.decision, this.decision.permits, options);
    } catch (error) {
      this.cancelled = error instanceof errors.OutcomeUnknownError && !this.decision.id;
      throw error;
    }
  }
}

/** Gives back n of the permits that a decision granted. Returns how many were. */
async function giveBack(subject, decision, n = decision?.permits, options = {}) {
  this.check('giveBack', options);
  if (!isDecision(decision)) throw refuse(this.name, 'decision', decision, 'a decision of this limiter');
  const script = scriptOf(this.kind.script, 'return');
  const named = decision.id !== undefined && this.kind.method === 'zsetLog';
  const windows = this.ring && (decision.rings ?? this.ring.slices);
  const keys = this.grantKeys(subject, windows);
  const [key] = keys;
  if (!decision.granted || (decision.degraded && !named)) return 0;
  integer(this.name, 'n', n, 1, Infinity);
  if (decision.key !== key && !(decision.key === undefined && named)) {
    throw refuse(this.name, 'decision', decision.key, `one of this limiter about this subject: ${key}`);
  }
  if (n > decision.permits) throw refuse(this.name, 'n', n, `up to ${decision.permits}, as many as were granted`);
  const begin = decision.periodBegin === undefined ? undefined : Math.round(decision.periodBegin * 1e3);
  const values = { ...this.values, moment: momentOf(decision), begin, id: decision.id, permits: n };
  const bounds = { ...this.bounds(options), repeats: named && n === decision.permits };
  const args = argsOf(script, values, windows?.map(groupOf));
  const [returned] = await this.limits.caller.run(script, keys, args, bounds);
  return returned;
}

function isDecision(value) {
  const numbers = [value?.permits, value?.wait ?? 0, value?.now ?? 0];
  return typeof value?.granted === 'boolean' && numbers.every((number) => typeof number === 'number') &&
    areRings(value.rings);
}

/** Only decisions of rings have some. */
function areRings(rings) {
  if (rings === undefined) return true;
  const isRing = (ring) => Number.isInteger(ring?.slice) && Number.isInteger(ring.size);
  return Array.isArray(rings) && rings.length > 0 && rings.every(isRing);
}

/** The time that permits were granted for, in microseconds. None if Redis did not say: zsetLog knows it by its id. */
function momentOf({ now, wait = 0 }) {
  return now === undefined ? undefined : Math.round((now + wait) * 1e3);
}

class ListLog extends Reserver {}
ListLog.prototype.giveBack = giveBack;

class ZSetLog extends Reserver {
  idOf(id = newId()) {
    if (typeof id === 'string' && id !== '' && Buffer.byteLength(id) <= 128 && !id.includes('|')) return id;
    throw refuse(this.name, 'id', id, 'a string of 1 to 128 bytes without |');
  }
}
ZSetLog.prototype.giveBack = giveBack;

class GCRA extends Reserver {
  configure(options) {
    super.configure(options);
    const { burst = this.limit.permits } = options;
    this.values.burst = burst;
    this.capacity = this.limit.permits === 0 ? 0 : burst;
    if (options.burst !== undefined) this.limit = Object.freeze({ ...this.limit, burst });
  }
}

class TokenBucket extends Reserver {
  configure(options) {
    super.configure(options);
    const { clientId: client = this.limits.clientId, perClient = false } = options;
    checkBoolean(this.name, 'perClient', perClient);
    if (typeof client !== 'string' || client === '') throw refuse(this.name, 'clientId', client, 'a string, not empty');
    this.values = { rate: this.values.limit, interval: this.values.window, scope: perClient ? 1 : 0, client };
  }

  /** Only Redis knows the limit that is stored. */
  checkNumber(method, n) {
    integer(this.name, 'n', n, 1, argumentOf(this.script, 'permits').max);
  }

  resets(subject) {
    return this.keys(subject).slice(1); // not the config
  }

  /** Stores the subject's limit, for all processes at once. */
  async setRate(subject, limit, options = {}) {
    this.check('setRate', options);
    checkOptions(this.name, 'tokenBucket.setRate', limit, ['permits', 'window']);
    const { permits, window } = limitOf(this.name, this.kind, this.script, limit);
    integer(this.name, 'permits', permits, 1, Infinity);
    const script = scriptOf(this.kind.script, 'set');
    const [key] = this.keys(subject);
    const args = argsOf(script, { ...this.values, rate: permits, interval: window });
    await this.limits.caller.run(script, [key], args, { ...this.bounds(options), repeats: true });
  }

  detail(decision, [permits, window]) {
    decision.limit = Object.freeze({ permits, window: window / 1e3 });
  }
}

class SliceRing extends Limiter {
  configure(options) {
    this.ring = ringOf(this.name, this.kind, this.script, options);
    this.capacity = Math.min(...this.ring.limits.map((limit) => limit.permits));
    this.values = { reported: 0 };
    const { permits, window } = this.ring.limits.find((limit) => limit.permits === this.capacity);
    this.limit = Object.freeze({ permits, window: window / 1e3 });
  }

  /** Returns the keys of windows, by default of the limiter's. */
  grantKeys(subject, windows = this.ring.slices) {
    const names = { prefix: this.limits.prefix, name: this.name };
    return keysOf(scriptOf('slice_ring_v1'), names, subject, {}, windows.map(groupOf));
  }

  detail(decision, counts, resetAfter, now) {
    Object.assign(decision, this.describe(statesOf(this.ring, counts, resetAfter, now)));
  }

  describe(states) {
    const windows = windowsOf(this.ring, states);
    const { limit, countsFor } = windows[0];
    return { limit, countsFor, ...(windows.length > 1 ? { windows } : {}) };
  }
}
SliceRing.prototype.giveBack = giveBack;

/** What scripts and keys call the slice and size of a window. */
const groupOf = ({ slice, size }) => ({ slice_i: slice, size_i: size });

function checkFailure(name, onFailure) {
  const share = onFailure?.local;
  if (['error', 'open', 'deny'].includes(onFailure) || (typeof share === 'number' && share > 0 && share <= 1)) return;
  throw refuse(name, 'onFailure', onFailure, '"error", "open", "deny" or { local: a share above 0, up to 1 }');
}

/** Returns a timeout in milliseconds. */
const checkTimeout = (name, timeout) => duration(name, 'timeout', timeout, 1e3, 86400e6) / 1e3;

module.exports = {
  Limiter, ListLog, ZSetLog, GCRA, TokenBucket, SliceRing, newId, checkFailure, checkTimeout, giveBack, isDecision,
  maxAhead, timeoutWithin,
};
