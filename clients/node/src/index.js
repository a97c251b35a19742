'use strict';

const { ListLog, ZSetLog, GCRA, TokenBucket, SliceRing } = require('./algorithms');
const { all } = require('./all');
const { Caller } = require('./call');
const { Budget } = require('./budget');
const { Concurrency } = require('./concurrency');
const errors = require('./errors');
const http = require('./http');
const { Local } = require('./local');
const { newId, checkFailure, checkTimeout } = require('./limiter');
const { checkBoolean, checkOptions, duration, integer } = require('./options');
const { Quota } = require('./quota');
const { checkName, redisKey } = require('./scripts');
const { sleep } = require('./time');

const maxBackground = 1000;

const { isReply, refuse, show, warn, codeOf, cured, ...kindsOfErrors } = errors;

/** Makes limiters on one Redis. It sends nothing until a limiter is asked, and does not close the client. */
class Limits {
  constructor(client, options = {}) {
    checkOptions('Limits', 'Limits', options, ['prefix', 'preloaded', 'timeout', 'onFailure', 'breaker']);
    const { prefix = 'sluice', preloaded = false, timeout, onFailure = 'error', breaker = {} } = options;
    checkName('prefix', prefix);
    checkFailure('Limits', onFailure);
    checkBoolean('Limits', 'preloaded', preloaded);
    if (timeout !== undefined) checkTimeout('Limits', timeout);
    Object.assign(this, { prefix, timeout, onFailure, clientId: newId(), local: new Local() });
    this.caller = new Caller(client, preloaded, breaker === false ? undefined : breakerOf(breaker));
    this.background = new Set();
  }

  /** Works in the background. Nobody learns of its errors. Of too much work it calls skip. */
  later(work, skip = () => {}) {
    if (this.background.size >= maxBackground) return skip(warn('background', 'left out', new Error('too many calls')));
    const done = work().catch(() => {}).finally(() => this.background.delete(done));
    this.background.add(done);
  }

  /** Waits for what is settled, released and given back in the background. Returns whether all of it is done. */
  async flush(options = {}) {
    checkOptions('flush', 'flush', options, ['timeout']);
    const end = performance.now() + checkTimeout('flush', options.timeout ?? '10s');
    while (this.background.size > 0 && performance.now() < end) await sleep(Math.min(end - performance.now(), 20));
    return this.background.size === 0;
  }
}

/** Returns the options of breakers, or throws. */
function breakerOf(options) {
  checkOptions('Limits', 'breaker', options, ['failures', 'pause']);
  const { failures = 5, pause = 250 } = options;
  integer('Limits', 'failures', failures, 1, Infinity);
  return { failures, pause: duration('Limits', 'pause', pause, 1e3, 86400e6) / 1e3 };
}

Limits.prototype.all = all;

const kinds = {
  listLog: ListLog, zsetLog: ZSetLog, gcra: GCRA, tokenBucket: TokenBucket, sliceRing: SliceRing, quota: Quota,
  budget: Budget, concurrency: Concurrency,
};
for (const [method, Kind] of Object.entries(kinds)) {
  Limits.prototype[method] = function make(name, options) {
    return new Kind(this, method, name, options);
  };
}

module.exports = { Limits, redisKey, ...http, ...kindsOfErrors };
