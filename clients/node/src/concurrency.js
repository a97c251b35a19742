'use strict';

const { OutcomeUnknownError, SlotLostError, UnavailableError, WaitError, refuse } = require('./errors');
const { Limiter, newId } = require('./limiter');
const { integer, duration } = require('./options');
const { argsOf, argumentOf, checkSubject, scriptOf } = require('./scripts');
const { onAbort, jitter, longestTimer, restOf } = require('./time');
const { timeoutWithin } = require('./wait');

const renewals = 3; // a ttl
const clockRates = 1e-3; // of the ttl: by so much clocks may differ
const releases = 5; // where it is unknown whether there is a lease

/** Limits how many run at once. */
class Concurrency extends Limiter {
  configure({ slots, ttl }) {
    if (this.onFailure.local) throw refuse(this.name, 'onFailure', this.onFailure, '"error", "open" or "deny"');
    this.capacity = integer(this.name, 'slots', slots, 0, argumentOf(this.script, 'limit').max);
    const { min, max } = argumentOf(this.script, 'ttl');
    this.ttl = duration(this.name, 'ttl', ttl, min, max) / 1e3;
    this.values = { limit: slots, ttl: this.ttl * 1e3, renew: 0 };
    this.limit = Object.freeze({ permits: slots, window: this.ttl });
    this.queues = new Map();
  }

  /** Takes a slot now: null if none is free. Returns the decision as well. */
  async tryAcquire(subject, options = {}) {
    const { signal } = this.check('tryAcquire', options);
    const place = { n: 1, maxWait: 0, id: newId() };
    return this.take(subject, place, { signal }).finally(() => this.leave(subject, place));
  }

  /**
   * Takes a slot as soon as one is free. Callers of this process are served in order: only the first asks Redis, unless
   * its last question was not answered. Then all ask, because there is no order to keep.
   */
  async acquire(subject, options = {}) {
    const { maxWait, signal } = this.check('acquire', options, 'maxWait');
    checkSubject(this.name, subject);
    const times = { started: performance.now(), bound: this.ahead(maxWait) };
    const place = { n: 1, maxWait: 0, id: newId(), ...times, signal, wake() {} };
    const queue = this.queues.get(subject) ?? { places: [], answered: false, failure: undefined };
    const { places } = queue;
    this.queues.set(subject, queue);
    places.push(place);
    try {
      for (;;) {
        const asks = places[0] === place || queue.failure;
        const { slot, pause } = asks ? await this.turn(subject, place, queue) : { pause: Infinity };
        if (slot) return slot;
        await pauseAt(place, pause);
        signal?.throwIfAborted();
        if (leftOf(place) < 1) throw queue.failure ?? this.late(place, queue);
      }
    } finally {
      places.splice(places.indexOf(place), 1);
      if (places.length === 0) this.queues.delete(subject);
      places[0]?.wake();
      this.leave(subject, place);
    }
  }

  /** Returns a slot, or how long to pause. The longer a caller has waited, the sooner it asks again. */
  async turn(subject, place, queue) {
    const { failure } = queue;
    const timeout = timeoutWithin(this, place.bound, leftOf(place));
    try {
      const { slot, decision } = await this.take(subject, place, { signal: place.signal, timeout });
      queue.failure = decision.cause;
      queue.answered ||= !decision.degraded;
      if (decision.wait === Infinity) throw this.noSlot('there is none: slots is 0');
      const poll = jitter(Math.max(250 / (1 + (performance.now() - place.started) / 100), 20));
      if (slot || !decision.degraded) return { slot, pause: Math.max(Math.min(decision.wait, poll), 1) };
    } catch (error) {
      const isOutage = error instanceof UnavailableError || error instanceof OutcomeUnknownError;
      if (!isOutage || place.signal?.aborted) throw error;
      queue.failure = error;
    } finally {
      if (queue.failure && !failure) queue.places.forEach((other) => other.wake());
    }
    if (place.bound === Infinity) throw queue.failure;
    return { pause: jitter(250) };
  }

  late({ bound }, { answered }) {
    if (answered) return this.noSlot(`none came free within ${bound} ms`, { maxWait: bound });
    return new UnavailableError(`${this.name}: acquire: no answer within ${bound} ms`);
  }

  noSlot(why, more) {
    return new WaitError(`${this.name}: acquire: ${why}`, { limiter: this.name, ...more });
  }

  async take(subject, place, options) {
    const sent = performance.now();
    const decision = await this.decide('acquire', subject, place, options);
    return { decision, slot: decision.granted ? new Slot(this, subject, place.id, sent, decision) : null };
  }

  /** Notes on the question whether Redis may have given a slot without saying so. */
  async ask(subject, question, bounds) {
    try {
      const reply = await super.ask(subject, question, bounds);
      if (reply[0] > 0) question.unknown = false;
      return reply;
    } catch (error) {
      question.unknown ||= error instanceof OutcomeUnknownError;
      throw error;
    }
  }

  leave(subject, { id, unknown }) {
    if (unknown) this.releaseLater(subject, id, releases);
  }

  checkNumber() {}

  async renew(subject, id, timeout) {
    const args = argsOf(this.script, { ...this.values, renew: 1, id });
    const [held] = await this.limits.caller.run(this.script, this.keys(subject), args, { timeout, repeats: true });
    return held > 0;
  }

  async release(subject, id) {
    const script = scriptOf(this.kind.script, 'release');
    const bounds = { timeout: this.timeout, repeats: true };
    await this.limits.caller.run(script, this.keys(subject), argsOf(script, { id }), bounds);
    this.queues.get(subject)?.places[0]?.wake();
  }

  /** Releases in the background, for a ttl. times is more than 1 if the slot may be taken only later. */
  releaseLater(subject, id, times = 1) {
    const end = performance.now() + this.ttl;
    this.limits.later(async () => {
      for (let answers = 0; answers < times && performance.now() < end; ) {
        await this.release(subject, id).then(() => answers++, () => {});
        if (answers < times) await restOf(Math.min(250, this.ttl / 4));
      }
    });
  }
}
for (const name of ['allow', 'allowN', 'wait']) Concurrency.prototype[name] = undefined;

/** Returns how many milliseconds a caller may still wait. */
const leftOf = ({ started, bound }) => Math.max(started + bound - performance.now(), 0);

/** Waits so many milliseconds, until the end of the call, or until the place is woken. */
function pauseAt(place, ms) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => place.wake(), Math.min(Math.ceil(Math.min(ms, leftOf(place))), longestTimer));
    place.wake = () => {
      clearTimeout(timer);
      off();
      resolve();
    };
    const off = onAbort(place.signal, place.wake);
  });
}

/** A slot that its caller holds until release(), or until it is lost. It renews its lease by itself. */
class Slot {
  #limiter;
  #id;
  #lost = new AbortController();
  #ends; // performance.now() until which the lease lasts at least
  #released; // a promise
  #timers = [];
  #failure; // of the last renewal

  constructor(limiter, subject, id, sent, decision) {
    this.#limiter = limiter;
    this.#id = id;
    this.subject = subject;
    this.decision = decision;
    if (!decision.degraded) this.#leased(sent);
  }

  /** Aborted when the slot is lost, with a SlotLostError as its reason. */
  get signal() {
    return this.#lost.signal;
  }

  /** Frees the slot. Rejects with a SlotLostError if it was lost before. Only the first call does anything. */
  release() {
    this.#released ??= this.#release();
    return this.#released;
  }

  async [Symbol.asyncDispose ?? Symbol.for('Symbol.asyncDispose')]() {
    await this.release();
  }

  async #release() {
    this.#stop();
    this.signal.throwIfAborted();
    if (this.decision.degraded) return;
    await this.#limiter.release(this.subject, this.#id).catch((error) => {
      this.#limiter.releaseLater(this.subject, this.#id);
      throw error;
    });
  }

  #stop() {
    this.#timers.forEach(clearTimeout);
    this.#timers = [];
  }

  /** The lease was taken or renewed by a call that was sent at that time. */
  #leased(sent) {
    const { ttl } = this.#limiter;
    this.#stop();
    this.#ends = sent + ttl * (1 - clockRates);
    this.#at(this.#ends, () => this.#expire());
    this.#at(sent + ttl / renewals, () => this.#renew());
  }

  /** Calls work at a time by performance.now(), or a little early. It does not keep the process alive. */
  #at(time, work) {
    const ms = Math.max(Math.ceil(time - performance.now()), 1);
    this.#timers.push(setTimeout(work, Math.min(ms, longestTimer)).unref());
  }

  #expire() {
    if (performance.now() < this.#ends) this.#at(this.#ends, () => this.#expire());
    else if (this.#limiter.onFailure === 'open') this.#stop();
    else this.#lose('no renewal was answered in time');
  }

  async #renew() {
    const sent = performance.now();
    const limiter = this.#limiter;
    const isOver = () => this.#released !== undefined || this.signal.aborted;
    try {
      const held = await limiter.renew(this.subject, this.#id, Math.max((this.#ends - sent) / 2, 1));
      if (isOver() && held) limiter.releaseLater(this.subject, this.#id);
      else if (held) this.#leased(sent);
      else if (!isOver()) this.#lose('the server has no lease of it');
    } catch (error) {
      this.#failure = error;
      if (!isOver()) this.#at(performance.now() + jitter(limiter.ttl / 10), () => this.#renew());
    }
  }

  #lose(why) {
    this.#stop();
    const { name } = this.#limiter;
    const fields = { limiter: name, subject: this.subject, cause: this.#failure };
    this.#lost.abort(new SlotLostError(`${name}: slot lost: ${why}`, fields));
    this.#limiter.releaseLater(this.subject, this.#id);
  }
}

module.exports = { Concurrency };
