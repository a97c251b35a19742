'use strict';

const { NotReservedError, OutcomeUnknownError, UnavailableError, refuse, show, warn } = require('./errors');
const { SliceRing } = require('./algorithms');
const { integer, duration } = require('./options');
const { argsOf, argumentOf, scriptOf } = require('./scripts');
const { jitter, restOf } = require('./time');

/** Limits a cost that is known only afterwards. It counts on the ring of a SliceRing of its name and slices. */
class Budget extends SliceRing {
  configure(options) {
    super.configure(options);
    const { min, max } = argumentOf(this.script, 'ttl');
    this.settleWithin = duration(this.name, 'settleWithin', options.settleWithin ?? '15m', min, max);
    this.values.ttl = this.settleWithin;
  }

  /** Takes an estimate for the request of this id, in all windows or in none. */
  async reserve(subject, id, estimate, options = {}) {
    this.check('reserve', options);
    checkId(this.name, id);
    return this.decide('reserve', subject, { n: estimate, maxWait: 0, id }, options);
  }

  /** Is reserve(), with what settles it whatever happens: an error, an outage. */
  async reserved(subject, id, estimate, options) {
    const settle = (method, actual) => this.settleSoon(method, subject, id, actual);
    try {
      return new Reserved(this, await this.reserve(subject, id, estimate, options), settle);
    } catch (error) {
      if (error instanceof OutcomeUnknownError) settle('charge', 0);
      throw error;
    }
  }

  /** Settles for as long as Redis knows the id. Resolves after the first attempt. */
  settleSoon(method, ...cost) {
    const end = performance.now() + this.settleWithin / 1e3;
    return new Promise((first) => this.limits.later(async () => {
      for (let pause = 250; ; pause = Math.min(2 * pause, 5000)) {
        const error = await this[method](...cost).catch((failure) => failure);
        first();
        if (error) warn(this.name, 'a cost is not settled', error);
        const mayHelp = error instanceof UnavailableError || error instanceof OutcomeUnknownError;
        if (!mayHelp || performance.now() > end) return;
        await restOf(jitter(pause));
      }
    }, first));
  }

  /** Replaces the estimate of a reservation by its actual cost. Rejects with a NotReservedError if there is none. */
  async settle(subject, id, actual, options = {}) {
    const { key, settled, permits } = await this.correct('settle', subject, id, actual, options);
    if (settled > 0 || permits > 0) return;
    if ((await this.limits.caller.command(['exists', key], key, this.bounds(options))) > 0) return; // settled with 0
    const message = `${this.name}: id ${show(id)} is not reserved, or no longer: charge() would charge it`;
    throw new NotReservedError(message, { limiter: this.name, id });
  }

  /** Is settle(), but charges an id that Redis does not know. With 0 it withdraws a reservation. */
  async charge(subject, id, actual, options = {}) {
    await this.correct('charge', subject, id, actual, options);
  }

  async correct(method, subject, id, actual, options) {
    this.check(method, options);
    checkId(this.name, id);
    const script = scriptOf(this.kind.script, 'settle');
    integer(this.name, 'actual', actual, 0, argumentOf(script, 'permits').max);
    const values = { ...this.values, id, permits: actual, unknown: method === 'charge' ? 1 : 0 };
    const keys = this.keys(subject, values);
    const bounds = { ...this.bounds(options), repeats: true };
    const args = argsOf(script, values, this.ring.groups);
    const [settled, permits] = await this.limits.caller.run(script, keys, args, bounds);
    return { key: keys.at(-1), settled, permits };
  }

  /** A look needs no id, and is the ring's. */
  async peek(subject, options = {}) {
    return this.decide('peek', subject, { n: 0, maxWait: 0 }, this.check('peek', options));
  }

  ask(subject, question, bounds) {
    if (question.n > 0) return super.ask(subject, question, bounds);
    const ring = scriptOf('slice_ring_v1');
    const args = argsOf(ring, { permits: 0, reported: 0 }, this.ring.groups);
    return this.limits.caller.run(ring, this.grantKeys(subject), args, { ...bounds, peeks: true });
  }
}

/** An estimate that is settled by its actual cost, used. As long as that is not set, the estimate stays charged. */
class Reserved {
  #budget;
  #used;
  #settle;
  #settled;

  constructor(budget, decision, settle) {
    this.#budget = budget;
    this.#settle = settle;
    Object.assign(this, { decision, granted: decision.granted });
  }

  get used() {
    return this.#used;
  }

  set used(actual) {
    const { max } = argumentOf(scriptOf(this.#budget.kind.script, 'settle'), 'permits');
    this.#used = integer(this.#budget.name, 'used', actual, 0, max);
  }

  /** Settles, the first time. What Redis may not know is charged, and an estimate that comes later is refused. */
  async settle() {
    const { granted, decision: { degraded, cause } } = this;
    const actual = granted ? this.#used : 0;
    if (actual === undefined || !(granted || cause instanceof OutcomeUnknownError)) return;
    await (this.#settled ??= this.#settle(degraded ? 'charge' : 'settle', actual));
  }

  [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    return this.settle();
  }
}

// What a Budget does not have: permits without an id, and their return.
for (const name of ['allow', 'allowN', 'wait', 'giveBack']) Budget.prototype[name] = undefined;

function checkId(limiter, id) {
  if (typeof id === 'string' && id !== '' && Buffer.byteLength(id) <= 128) return;
  throw refuse(limiter, 'id', id, 'a string of 1 to 128 bytes');
}

module.exports = { Budget };
