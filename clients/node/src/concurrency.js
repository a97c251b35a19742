'use strict';

const { OutcomeUnknownError, SlotLostError, UnavailableError, WaitError } = require('./errors');
const { Limiter, newId } = require('./limiter');
const { integer, duration } = require('./options');
const { argsOf, argumentOf, scriptOf } = require('./scripts');
const { sleep, jitter, longestTimer } = require('./time');

const renewals = 3; // a ttl
const clockRates = 1e-3; // of the ttl: by so much clocks may differ
const releases = 5; // where it is unknown whether there is a lease

/** Limits how many run at once. */
class Concurrency extends Limiter {
  configure({ slots, ttl }) {
    const { max } = argumentOf(this.script, 'limit');
    this.capacity = integer(this.name, 'slots', slots, 0, max);
    const range = argumentOf(this.script, 'ttl');
    this.ttl = duration(this.name, 'ttl', ttl, range.min, range.max) / 1e3;
    this.values = { limit: slots, ttl: this.ttl * 1e3, renew: 0 };
    this.limit = Object.freeze({ permits: slots, window: this.ttl });
    this.queues = new Map();
  }

  /** Takes a slot now. Returns null if none is free. */
  async tryAcquire(subject, { signal } = {}) {
    const { slot } = await this.take(subject, newId(), signal);
    return slot;
  }

  /** Takes a slot as soon as one is free. Callers of this process are served in their order. */
  async acquire(subject, { maxWait, signal } = {}) {
    const micros = maxWait === undefined ? this.maxWait : duration(this.name, 'maxWait', maxWait, 0, Number.MAX_SAFE_INTEGER);
    const place = new Place(this, subject, micros === undefined ? Infinity : micros / 1e3, signal);
    try {
      return await place.run();
    } finally {
      place.leave();
    }
  }

  async take(subject, id, signal) {
    const sent = performance.now();
    try {
      const decision = await this.decide('acquire', subject, { n: 1, maxWait: 0, id }, { signal });
      if (decision.cause instanceof OutcomeUnknownError) this.releaseLater(subject, id, releases);
      return { decision, slot: decision.granted ? new Slot(this, subject, id, sent, decision) : null };
    } catch (error) {
      if (error instanceof OutcomeUnknownError) this.releaseLater(subject, id, releases);
      throw error;
    }
  }

  checkNumber() {}

  async renew(subject, id, timeout) {
    const args = argsOf(this.script, { ...this.values, renew: 1, id });
    const [held] = await this.limits.caller.run(this.script, this.keys(subject), args, { timeout, repeats: true });
    return held > 0;
  }

  async release(subject, id) {
    const script = scriptOf(this.kind.script, 'release');
    const args = argsOf(script, { id });
    await this.limits.caller.run(script, this.keys(subject), args, { timeout: this.timeout, repeats: true });
    this.queues.get(subject)?.[0]?.wake();
  }

  /** Releases in the background, for a ttl. times is more than 1 if the slot may be taken only later. */
  async releaseLater(subject, id, times) {
    const end = performance.now() + this.ttl;
    for (let answers = 0; answers < times && performance.now() < end; ) {
      await this.release(subject, id).then(() => answers++, () => {});
      if (answers < times) await sleep(Math.min(250, this.ttl / 4));
    }
  }
}
for (const name of ['allow', 'allowN', 'wait']) Concurrency.prototype[name] = undefined;

/** One call of acquire(), in the queue of its subject. Only the first in the queue asks Redis. */
class Place {
  constructor(limiter, subject, maxWait, signal) {
    Object.assign(this, { limiter, subject, maxWait, signal, id: newId(), started: performance.now() });
    this.queue = limiter.queues.get(subject) ?? [];
    limiter.queues.set(subject, this.queue);
    this.queue.push(this);
  }

  waited() {
    return performance.now() - this.started;
  }

  async run() {
    const { limiter, subject, signal } = this;
    for (;;) {
      const pause = this.queue[0] === this ? await this.ask() : this.maxWait - this.waited();
      if (pause instanceof Slot) return pause;
      await this.pause(Math.min(pause, this.maxWait - this.waited(), longestTimer));
      signal?.throwIfAborted();
      if (this.waited() < this.maxWait) continue;
      const message = `${limiter.name}: no slot came free within maxWait ${this.maxWait} ms`;
      throw new WaitError(message, { limiter: limiter.name, subject, maxWait: this.maxWait });
    }
  }

  /** Returns a slot, or how many milliseconds to wait before the next question. */
  async ask() {
    try {
      const { slot, decision } = await this.limiter.take(this.subject, this.id, this.signal);
      if (slot) return slot;
      if (decision.degraded) throw decision.cause;
      if (decision.wait === Infinity) throw new WaitError(`${this.limiter.name}: acquire would never end: slots is 0`);
      return Math.max(Math.min(decision.wait, jitter(Math.max(250 / (1 + this.waited() / 100), 20))), 1);
    } catch (error) {
      if (!(error instanceof UnavailableError) || this.maxWait === Infinity) throw error;
      return jitter(250);
    }
  }

  /** Waits, until this place is woken at the latest. */
  pause(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.wake(), Math.max(ms, 0));
      this.wake = () => {
        clearTimeout(timer);
        this.signal?.removeEventListener('abort', this.wake);
        resolve();
      };
      this.signal?.addEventListener('abort', this.wake, { once: true });
    });
  }

  wake() {}

  leave() {
    this.queue.splice(this.queue.indexOf(this), 1);
    if (this.queue.length === 0) this.limiter.queues.delete(this.subject);
    else this.queue[0].wake();
  }
}

/** A slot that its caller holds until release(), or until it is lost. It renews its lease by itself. */
class Slot {
  #limiter;
  #id;
  #controller = new AbortController();
  #ends; // performance.now() until which the lease lasts at least
  #released;
  #expiry;
  #renewal;

  constructor(limiter, subject, id, sent, decision) {
    this.#limiter = limiter;
    this.#id = id;
    this.subject = subject;
    this.decision = decision;
    if (!decision.degraded) this.#leased(sent);
  }

  /** Aborted when the slot is lost, with a SlotLostError as its reason. */
  get signal() {
    return this.#controller.signal;
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
    try {
      await this.#limiter.release(this.subject, this.#id);
    } catch (error) {
      this.#limiter.releaseLater(this.subject, this.#id, 1);
      throw error;
    }
  }

  #stop() {
    clearTimeout(this.#expiry);
    clearTimeout(this.#renewal);
  }

  /** The lease was taken or renewed by a call that was sent at that time. */
  #leased(sent) {
    const { ttl } = this.#limiter;
    this.#stop();
    this.#ends = sent + ttl * (1 - clockRates);
    this.#expiry = timerAt(this.#ends, () => this.#expire());
    this.#renewal = timerAt(sent + ttl / renewals, () => this.#renew());
  }

  #expire() {
    if (performance.now() < this.#ends) { // the timer was early
      this.#expiry = timerAt(this.#ends, () => this.#expire());
      return;
    }
    if (this.#limiter.onFailure === 'open') this.#stop();
    else this.#lose('no renewal was answered in time');
  }

  async #renew() {
    const sent = performance.now();
    const { ttl } = this.#limiter;
    try {
      const held = await this.#limiter.renew(this.subject, this.#id, Math.max((this.#ends - sent) / 2, 1));
      if (this.#released || this.signal.aborted) return this.#afterEnd(held);
      if (held) this.#leased(sent);
      else this.#lose('the server has no lease of it');
    } catch (error) {
      if (this.#released || this.signal.aborted) return;
      this.cause = error;
      this.#renewal = setTimeout(() => this.#renew(), jitter(ttl / 10)).unref();
    }
  }

  #afterEnd(held) {
    if (held) this.#limiter.releaseLater(this.subject, this.#id, 1);
  }

  #lose(why) {
    this.#stop();
    const { name } = this.#limiter;
    const reason = new SlotLostError(`${name}: slot lost: ${why}`, { limiter: name, subject: this.subject, cause: this.cause });
    this.#controller.abort(reason);
    this.#limiter.releaseLater(this.subject, this.#id, 1);
  }
}

/** Calls work at a time by performance.now(), or a little early. It does not keep the process alive. */
function timerAt(at, work) {
  return setTimeout(work, Math.min(Math.max(Math.ceil(at - performance.now()), 1), longestTimer)).unref();
}

module.exports = { Concurrency, Slot };
