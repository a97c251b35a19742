'use strict';

const { refuse } = require('./errors');
const { Limiter, Reserver, newId } = require('./limiter');
const { checkBoolean, checkOptions, integer, limitOf } = require('./options');
const { giveBack } = require('./returns');
const { groupOf, ringOf, statesOf, windowsOf } = require('./ring');
const { argsOf, argumentOf, isText, keysOf, scriptOf } = require('./scripts');

// The limiters of each script, but for quota, budget and concurrency.

class ListLog extends Reserver {}
ListLog.prototype.giveBack = giveBack;

class ZSetLog extends Reserver {
  idOf(id = newId()) {
    if (isText(id) && id !== '' && Buffer.byteLength(id) <= 128 && !id.includes('|')) return id;
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

module.exports = { ListLog, ZSetLog, GCRA, TokenBucket, SliceRing };
