'use strict';

const { Caller } = require('./call');
const { Budget } = require('./budget');
const { Concurrency } = require('./concurrency');
const errors = require('./errors');
const { expressLimit, fastifyLimit, keyByAddress, subjectOf } = require('./http');
const { ListLog, ZSetLog, GCRA, TokenBucket, SliceRing, newId, checkFailure, checkTimeout } = require('./limiter');
const { checkOptions } = require('./options');
const { checkName, keyOf, scripts } = require('./scripts');

/** Makes limiters on one Redis. It sends nothing until a limiter is asked, and does not close the client. */
class Limits {
  constructor(client, options = {}) {
    checkOptions('Limits', 'Limits', options, ['prefix', 'preloaded', 'timeout', 'onFailure']);
    const { prefix = 'sluice', preloaded = false, timeout, onFailure = 'error' } = options;
    checkName('prefix', prefix);
    checkFailure('Limits', onFailure);
    if (timeout !== undefined) checkTimeout('Limits', timeout);
    Object.assign(this, { prefix, timeout, onFailure, clientId: newId(), caller: new Caller(client, preloaded) });
  }

  listLog(name, options) {
    return new ListLog(this, 'listLog', name, options);
  }

  zsetLog(name, options) {
    return new ZSetLog(this, 'zsetLog', name, options);
  }

  gcra(name, options) {
    return new GCRA(this, 'gcra', name, options);
  }

  tokenBucket(name, options) {
    return new TokenBucket(this, 'tokenBucket', name, options);
  }

  sliceRing(name, options) {
    return new SliceRing(this, 'sliceRing', name, options);
  }

  budget(name, options) {
    return new Budget(this, 'budget', name, options);
  }

  concurrency(name, options) {
    return new Concurrency(this, 'concurrency', name, options);
  }

  /** Runs a script ("list_log_v1") with keys and args as they are, and returns its reply. It repeats nothing that counts. */
  async call(script, keys, args, { timeout = this.timeout ?? 1000, signal } = {}) {
    if (!scripts.has(script)) throw new errors.ArgumentError(`no script ${script}: want ${[...scripts.keys()].join(', ')}`);
    return this.caller.run(scripts.get(script), keys, args, { timeout: checkTimeout(script, timeout), signal });
  }
}

module.exports = { Limits, keyOf, expressLimit, fastifyLimit, keyByAddress, subjectOf, ...errors };
