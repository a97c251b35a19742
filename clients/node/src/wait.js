'use strict';

const errors = require('./errors');
const { sleep, jitter } = require('./time');

const maxAhead = 60e3; // milliseconds: how far ahead the scripts book

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
    if (!canGiveBack) throw errors.refuse(name, 'cancel', undefined, 'listLog or zsetLog', why);
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

module.exports = { Reservation, maxAhead, timeoutWithin, waitFor };
