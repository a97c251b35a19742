'use strict';

const { randomBytes } = require('node:crypto');
const errors = require('./errors');
const { checkOptions, integer, duration, limitOf } = require('./options');
const { argsOf, argumentOf, checkName, checkSubject, keysOf, scriptOf } = require('./scripts');
const { Reservation, maxAhead, waitFor } = require('./wait');

const longestWait = 366 * 86400e6; // microseconds
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
    this.maxWait = this.ahead(maxWait) ?? Infinity;
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

function checkFailure(name, onFailure) {
  const share = onFailure?.local;
  if (['error', 'open', 'deny'].includes(onFailure) || (typeof share === 'number' && share > 0 && share <= 1)) return;
  throw refuse(name, 'onFailure', onFailure, '"error", "open", "deny" or { local: a share above 0, up to 1 }');
}

/** Returns a timeout in milliseconds. */
const checkTimeout = (name, timeout) => duration(name, 'timeout', timeout, 1e3, 86400e6) / 1e3;

module.exports = { Limiter, Reserver, newId, checkFailure, checkTimeout };
