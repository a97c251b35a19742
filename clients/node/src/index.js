'use strict';

const { all } = require('./all');
const { Caller } = require('./call');
const { Budget } = require('./budget');
const { Concurrency } = require('./concurrency');
const errors = require('./errors');
const http = require('./http');
const { Local } = require('./local');
const { ListLog, ZSetLog, GCRA, TokenBucket, SliceRing, newId, checkFailure, checkTimeout } = require('./limiter');
const { checkBoolean, checkOptions } = require('./options');
const { checkName, redisKey } = require('./scripts');

/** Makes limiters on one Redis. It sends nothing until a limiter is asked, and does not close the client. */
class Limits {
  constructor(client, options = {}) {
    checkOptions('Limits', 'Limits', options, ['prefix', 'preloaded', 'timeout', 'onFailure']);
    const { prefix = 'sluice', preloaded = false, timeout, onFailure = 'error' } = options;
    checkName('prefix', prefix);
    checkFailure('Limits', onFailure);
    checkBoolean('Limits', 'preloaded', preloaded);
    if (timeout !== undefined) checkTimeout('Limits', timeout);
    Object.assign(this, { prefix, timeout, onFailure, clientId: newId(), local: new Local() });
    this.caller = new Caller(client, preloaded);
  }
}

Limits.prototype.all = all;

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

module.exports = { Limits, redisKey, ...http, ...kindsOfErrors };
