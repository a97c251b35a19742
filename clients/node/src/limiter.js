'use strict';

const { randomBytes } = require('node:crypto');
const errors = require('./errors');
const { refuse, checkOptions, integer, duration, limitOf } = require('./options');
const { ringOf, windowStates } = require('./ring');
const { argsOf, argumentOf, checkName, checkSubject, keysOf, scriptOf, show } = require('./scripts');
const { sleep, jitter, toMicros } = require('./time');

const maxAhead = 60e6; // microseconds: how far ahead the scripts book
const shared = ['permits', 'window', 'onFailure', 'timeout'];

/** What the limiters of each script are. larger says, in errors, which limiters take more. */
const kinds = {
  listLog: { script: 'list_log_v1', options: [...shared, 'maxWait'], larger: '; gcra and sliceRing hold more' },
  zsetLog: { script: 'zset_log_v1', options: [...shared, 'maxWait'], larger: '; listLog, gcra and sliceRing hold more' },
  gcra: { script: 'gcra_v1', options: [...shared, 'maxWait', 'burst'], larger: '; sliceRing holds more' },
  tokenBucket: {
    script: 'token_bucket_v1', options: [...shared, 'maxWait', 'clientId', 'perClient'], larger: '; gcra and sliceRing hold more',
  },
  sliceRing: { script: 'slice_ring_v1', options: [...shared, 'maxWait', 'windows', 'slice'], larger: '' },
  budget: { script: 'budget_v1', options: [...shared, 'windows', 'slice', 'settleWithin'], larger: '' },
  concurrency: { script: 'concurrency_v1', options: ['slots', 'ttl', 'onFailure', 'timeout', 'maxWait'], larger: '' },
};

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
    this.timeout = timeout === undefined ? (onFailure === 'error' ? 1000 : 100) : checkTimeout(name, timeout);
    this.maxWait = maxWait === undefined ? undefined : duration(name, 'maxWait', maxWait, 0, Number.MAX_SAFE_INTEGER);
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
  async allowN(subject, n, options = {}) {
    return this.decide('allowN', subject, { n, maxWait: 0, id: this.idOf(options.id) }, options);
  }

  /** Says what could be granted now, and changes nothing. */
  async peek(subject, options = {}) {
    return this.decide('peek', subject, { n: 0, maxWait: 0, id: '' }, options);
  }

  /** Gives the subject its whole limit back. */
  async reset(subject, options = {}) {
    const keys = this.keys(subject).filter((_, i) => this.resets(this.script.keys[i]));
    await this.limits.caller.command(['UNLINK', ...keys], keys[0], this.bounds(options));
  }

  resets() {
    return true;
  }

  /** Returns when n permits may be used. It books them, or sleeps and asks again where that is not possible. */
  async wait(subject, { n = 1, maxWait, signal, id } = {}) {
    const ahead = maxWait === undefined ? this.maxWait : duration(this.name, 'maxWait', maxWait, 0, Number.MAX_SAFE_INTEGER);
    const given = { n, id: this.idOf(id), own: id !== undefined };
    return new Waiting(this, subject, given, ahead, signal).run();
  }

  bounds({ signal }) {
    return { timeout: this.timeout, signal };
  }

  keys(subject, values = this.values) {
    return keysOf(this.script, { prefix: this.limits.prefix, name: this.name }, subject, values);
  }

  /** Returns the id of a call, of scripts that have one. */
  idOf() {
    return undefined;
  }

  /** Asks for a decision: by Redis, or by the policy if Redis does not decide. */
  async decide(method, subject, question, options) {
    checkSubject(this.name, subject);
    if (method !== 'peek') this.checkNumber(method, question.n);
    if (this.capacity === 0) return this.zero();
    try {
      return await this.ask(subject, question, this.bounds(options));
    } catch (error) {
      return this.fallBack(error, question.n);
    }
  }

  checkNumber(method, n) {
    integer(this.name, this.kind.amount ?? 'n', n, 1, Infinity);
    const upper = Math.min(this.capacity || Infinity, argumentOf(this.script, 'permits')?.max ?? 1);
    if (this.capacity === 0 || n <= upper) return;
    const message = `${this.name}: ${method}(${n}) exceeds limit ${upper}`;
    throw new errors.ExceedsLimitError(message, { limiter: this.name, argument: 'n', value: n, want: `up to ${upper}` });
  }

  async ask(subject, { n, maxWait, id }, bounds) {
    const values = { ...this.values, permits: n, max_wait: maxWait, ...(id === undefined ? {} : { id }) };
    const keys = this.keys(subject, values);
    const repeats = id !== undefined;
    const args = argsOf(this.script, values, this.ring?.groups);
    const reply = await this.limits.caller.run(this.script, keys, args, { ...bounds, repeats, peeks: n === 0 });
    return this.decision(reply, { n, id, key: keys[0] });
  }

  /** Makes a decision of the five integers that all scripts reply. Its times are in milliseconds. */
  decision([granted, remaining, wait, resetAfter, now, ...rest], { n, id, key }) {
    return freeze({
      granted: granted > 0, permits: granted > 0 ? n : 0, remaining, wait: wait / 1e3, resetAfter: resetAfter / 1e3,
      now: now / 1e3, limit: this.limit, degraded: false,
      ...(granted > 0 ? { key, ...(id ? { id } : {}) } : {}), ...this.detail(rest, resetAfter),
    });
  }

  detail() {
    return {};
  }

  zero() {
    return freeze({
      granted: false, permits: 0, remaining: 0, wait: Infinity, resetAfter: 0, limit: this.limit, degraded: false,
    });
  }

  /** Lets the policy decide in the place of Redis, unless a healthy Redis would have failed too. */
  fallBack(cause, n) {
    const undecided = [errors.OutcomeUnknownError, errors.UnavailableError, errors.NotLoadedError];
    if (this.onFailure === 'error' || !undecided.some((kind) => cause instanceof kind)) throw cause;
    const granted = this.onFailure === 'open' && n > 0;
    const remaining = this.onFailure === 'open' ? this.capacity : 0;
    const detail = this.ring ? this.detail(this.ring.limits.map(({ permits }) => permits * (remaining > 0 ? 0 : 1)), 0) : {};
    return freeze({
      granted, permits: granted ? n : 0, remaining, wait: 0, resetAfter: 0, limit: this.limit, ...detail, degraded: true, cause,
    });
  }
}

/** Adds retryAfter: wait in whole seconds, rounded up, at most 366 days, for the header. */
function freeze(decision) {
  return Object.freeze({ ...decision, retryAfter: Math.ceil(Math.min(decision.wait, 31622400e3) / 1e3) });
}

/** One call of wait(). */
class Waiting {
  constructor(limiter, subject, question, maxWait, signal) {
    Object.assign(this, { limiter, subject, question, signal, maxWait: maxWait / 1e3, started: performance.now() });
    this.bounded = maxWait !== undefined;
  }

  /** The rest of the time in milliseconds. */
  left() {
    return this.bounded ? Math.max(this.maxWait - (performance.now() - this.started), 0) : Infinity;
  }

  async run() {
    const { limiter, subject, question, signal } = this;
    for (let failures = 0; ; ) {
      const maxWait = limiter.books ? Math.floor(Math.min(this.left() * 1e3, maxAhead)) : 0;
      try {
        const decision = await limiter.decide('wait', subject, { ...question, maxWait }, { signal });
        if (await this.sleepUntil(decision)) return decision;
        failures = 0;
      } catch (error) {
        this.onError(error);
        if (!this.mayHelp(error)) throw error;
        await sleep(Math.min(jitter(Math.min(10 << Math.min(++failures, 5), 250)), this.left()), signal);
        if (this.left() === 0) throw error;
      }
    }
  }

  /** Sleeps until the permits may be used, or until it is time to ask again. */
  async sleepUntil(decision) {
    if (decision.degraded && !decision.granted) throw decision.cause;
    if (decision.wait > this.left() || decision.wait === Infinity) {
      this.giveBack(decision);
      throw this.tooLong(decision.wait);
    }
    const booked = this.limiter.books ? maxAhead / 1e3 : 0;
    const ms = decision.granted ? decision.wait : Math.max(decision.wait - booked, 1);
    await sleep(ms, this.signal).catch((reason) => {
      this.giveBack(decision);
      throw reason;
    });
    return decision.granted;
  }

  tooLong(wait) {
    const text = wait === Infinity ? 'would never end: the limit is 0' : `of ${wait} ms would exceed maxWait ${this.maxWait} ms`;
    return new errors.WaitError(`${this.limiter.name}: wait ${text}`, {
      limiter: this.limiter.name, wait, maxWait: this.bounded ? this.maxWait : undefined,
    });
  }

  /** Reports whether asking again may help and cannot charge twice. */
  mayHelp(error) {
    if (!this.bounded || this.signal?.aborted || this.left() === 0) return false;
    const repeats = this.question.id !== undefined;
    return error instanceof errors.UnavailableError || (repeats && error instanceof errors.OutcomeUnknownError);
  }

  /** Gives back in the background what a call with an id may have booked, if nobody asks again with the id. */
  onError(error) {
    const { n, id } = this.question;
    if (!(error instanceof errors.OutcomeUnknownError) || id === undefined || this.mayHelp(error)) return;
    this.giveBack({ granted: true, permits: n, id });
  }

  /** Gives back in the background what nobody will use. What a caller's own id has booked stays. */
  giveBack(decision) {
    const { limiter, subject, question } = this;
    if (!decision.granted || !limiter.giveBack || question.own) return;
    limiter.giveBack(subject, decision, question.n).catch(() => {});
  }
}

/** A limiter that books ahead. */
class Booker extends Limiter {
  get books() {
    return true;
  }

  /** Books n permits for the earliest time at which they may be used. */
  async reserve(subject, { n = 1, maxWait, signal, id } = {}) {
    const given = maxWait === undefined ? this.maxWait : duration(this.name, 'maxWait', maxWait, 0, Number.MAX_SAFE_INTEGER);
    const question = { n, maxWait: Math.min(given ?? maxAhead, maxAhead), id: this.idOf(id) };
    const decision = await this.decide('reserve', subject, question, { signal });
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
  async wait({ signal } = {}) {
    if (!this.ok) {
      const { name } = this.limiter;
      throw new errors.WaitError(`${name}: the reservation is not ok`, { limiter: name, wait: this.decision.wait });
    }
    await sleep(this.delay, signal);
  }

  /** Gives the permits back, unless they are due. Returns how many. */
  async cancel(options) {
    if (!this.limiter.giveBack) {
      const { name } = this.limiter;
      throw refuse(name, 'cancel', '', '', `${this.limiter.kind.method} cannot give permits back, listLog and zsetLog can`);
    }
    if (!this.ok || this.cancelled || this.delay === 0) return 0;
    this.cancelled = true;
    try {
      return await this.limiter.giveBack(this.subject, this.decision, this.decision.permits, options);
    } catch (error) {
      this.cancelled = error instanceof errors.OutcomeUnknownError && !this.decision.id;
      throw error;
    }
  }
}

/** Gives back n of the permits that a decision granted. Returns how many were. */
async function giveBack(subject, decision, n = decision.permits, options = {}) {
  const script = scriptOf(this.kind.script, 'return');
  const named = decision.id !== undefined && this.kind.method === 'zsetLog';
  const [key] = this.keys(subject);
  if (!decision.granted || (decision.degraded && !named)) return 0;
  integer(this.name, 'n', n, 1, Infinity);
  if (decision.key !== key && !(decision.key === undefined && named)) {
    throw refuse(this.name, 'decision', decision.key, `one of this limiter about this subject: ${key}`);
  }
  if (n > decision.permits) throw refuse(this.name, 'n', n, `up to ${decision.permits}, as many as were granted`);
  const values = { ...this.values, ...moments(decision), id: decision.id, permits: n };
  const repeats = named && n === decision.permits;
  const [returned] = await this.limits.caller.run(script, [key], argsOf(script, values), { ...this.bounds(options), repeats });
  return returned;
}

/** When a grant was taken and for when it was granted, in microseconds: zsetLog knows it by its id. */
function moments({ now, wait }) {
  if (now === undefined) return {};
  return { taken: Math.round(now * 1e3), moment: Math.round((now + wait) * 1e3) };
}

class ListLog extends Booker {}
ListLog.prototype.giveBack = giveBack;

class ZSetLog extends Booker {
  idOf(id = newId()) {
    if (typeof id === 'string' && id !== '' && Buffer.byteLength(id) <= 128 && !id.includes('|')) return id;
    throw refuse(this.name, 'id', id, 'a string of 1 to 128 bytes without |');
  }
}
ZSetLog.prototype.giveBack = giveBack;

class GCRA extends Booker {
  configure(options) {
    super.configure(options);
    const { burst = this.limit.permits } = options;
    this.values.burst = burst;
    this.capacity = this.limit.permits === 0 ? 0 : burst;
    if (options.burst !== undefined) this.limit = Object.freeze({ ...this.limit, burst });
  }
}

class TokenBucket extends Booker {
  configure(options) {
    super.configure(options);
    const { clientId = this.limits.clientId, perClient = false } = options;
    if (typeof clientId !== 'string' || clientId === '') throw refuse(this.name, 'clientId', clientId, 'at least one character');
    const { permits, window } = limitOf(this.name, this.kind, this.script, options);
    this.values = { rate: permits, interval: window, scope: perClient ? 1 : 0, client: clientId };
  }

  /** Only Redis knows the limit that is stored. */
  checkNumber(method, n) {
    integer(this.name, 'n', n, 1, argumentOf(this.script, 'permits').max);
  }

  resets(key) {
    return key.name !== 'config';
  }

  /** Stores the subject's limit, for all processes at once. */
  async setRate(subject, limit, options = {}) {
    const { permits, window } = limitOf(this.name, this.kind, this.script, limit);
    integer(this.name, 'permits', permits, 1, Infinity);
    const script = scriptOf(this.kind.script, 'set');
    const [key] = this.keys(subject);
    const args = argsOf(script, { ...this.values, rate: permits, interval: window });
    await this.limits.caller.run(script, [key], args, { ...this.bounds(options), repeats: true });
  }

  detail([permits, window]) {
    return { limit: Object.freeze({ permits, window: window / 1e3 }) };
  }
}

class SliceRing extends Limiter {
  configure(options) {
    this.ring = ringOf(this.name, this.kind, this.script, options);
    this.capacity = Math.min(...this.ring.limits.map((limit) => limit.permits));
    this.values = { slice: this.ring.slice };
    const { permits, window } = this.ring.limits.find((limit) => limit.permits === this.capacity);
    this.limit = Object.freeze({ permits, window: window / 1e3 });
  }

  detail(counts, resetAfter) {
    const windows = Object.freeze(windowStates(this.ring, counts, resetAfter));
    return { limit: windows[0].limit, ...(windows.length > 1 ? { windows } : {}) };
  }
}
SliceRing.prototype.giveBack = giveBack;

function checkFailure(name, onFailure) {
  if (['error', 'open', 'closed'].includes(onFailure)) return;
  throw refuse(name, 'onFailure', onFailure, '"error", "open" or "closed"');
}

/** Returns a timeout in milliseconds. */
function checkTimeout(name, timeout) {
  const micros = toMicros(timeout);
  if (micros >= 1e3 && micros <= 86400e6) return micros / 1e3;
  throw refuse(name, 'timeout', timeout, `1ms to 24h, not ${show(timeout)}`);
}

module.exports = { Limiter, ListLog, ZSetLog, GCRA, TokenBucket, SliceRing, newId, checkFailure, checkTimeout };
