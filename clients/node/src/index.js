'use strict';

const { Caller } = require('./call');
const { Budget } = require('./budget');
const { Concurrency } = require('./concurrency');
const errors = require('./errors');
const http = require('./http');
const { ListLog, ZSetLog, GCRA, TokenBucket, SliceRing, newId, checkFailure, checkTimeout } = require('./limiter');
const { checkBoolean, checkOptions, integer } = require('./options');
const { checkName, checkStrings, keyOf, scripts } = require('./scripts');

/** Makes limiters on one Redis. It sends nothing until a limiter is asked, and does not close the client. */
class Limits {
  constructor(client, options = {}) {
    checkOptions('Limits', 'Limits', options, ['prefix', 'preloaded', 'timeout', 'onFailure']);
    const { prefix = 'sluice', preloaded = false, timeout, onFailure = 'error' } = options;
    checkName('prefix', prefix);
    checkFailure('Limits', onFailure);
    checkBoolean('Limits', 'preloaded', preloaded);
    if (timeout !== undefined) checkTimeout('Limits', timeout);
    Object.assign(this, { prefix, timeout, onFailure, clientId: newId(), caller: new Caller(client, preloaded) });
  }

  /** Runs a script with keys and args as they are, and returns its reply. After a lost reply it does not ask again. */
  async call(script, keys, args, options = {}) {
    if (!scripts.has(script)) throw errors.refuse('call', 'script', script, [...scripts.keys()].join(', '));
    checkStrings(script, 'keys', keys);
    checkStrings(script, 'args', args);
    const count = scripts.get(script).keys.length;
    integer(script, 'number of keys', keys.length, count, count);
    checkOptions(script, 'call', options, ['timeout', 'signal']);
    const { timeout = this.timeout ?? 1000, signal } = options;
    return this.caller.run(scripts.get(script), keys, args, { timeout: checkTimeout(script, timeout), signal });
  }
}

const kinds = {
  listLog: ListLog, zsetLog: ZSetLog, gcra: GCRA, tokenBucket: TokenBucket, sliceRing: SliceRing, budget: Budget,
  concurrency: Concurrency,
};
for (const [method, Kind] of Object.entries(kinds)) {
  Limits.prototype[method] = function make(name, options) {
    return new Kind(this, method, name, options);
  };
}

const { isReply, refuse, show, warn, ...kindsOfErrors } = errors;

module.exports = { Limits, keyOf, ...http, ...kindsOfErrors };
