'use strict';

const { isReply } = require('./errors');
const { onAbort } = require('./time');

const period = 10; // milliseconds between two looks at the calls
const busyShare = 1 / 20; // how much of the time counts in which this process is busy
const longestTurn = 100; // milliseconds: a longer turn of the event loop counts as one of these

const idleTime = () => performance.eventLoopUtilization().idle;

class TimedOut extends Error {}

/** In place of an error of the client: the command was not sent, and will not be. */
class Unsent extends Error {}

/**
 * The deadlines of all calls on one client. What counts is the time in which this process waits and the server is
 * silent: not the time in which it answers what was sent earlier, and hardly the time in which this process is busy,
 * because it may not have read the reply yet, or not even sent the call. A burst is no outage.
 */
class Deadlines {
  #places = []; // of calls, in the order of sending
  #timer;
  silent = 0; // milliseconds that calls have waited since the last reply
  timedOut = false; // one of them has timed out

  /** A reply has come, or another connection is used. */
  heard() {
    this.silent = 0;
    this.timedOut = false;
  }

  add(place) {
    this.#places.push(place);
    this.#timer ??= this.#start();
  }

  #start() {
    const [started, idle] = [performance.now(), idleTime()];
    return setTimeout(() => {
      const busy = Math.min(performance.now() - started, longestTurn) * busyShare;
      this.#look(Math.max(Math.min(idleTime() - idle, 2 * period), busy)); // more, if this process was stopped
      this.#timer = this.#places.length > 0 ? this.#start() : undefined;
    }, period);
  }

  /** Counts the time of the calls, and ends those that have waited too long. */
  #look(passed) {
    let answers = false; // to calls that were sent earlier
    this.silent += passed;
    this.#places = this.#places.filter((place) => {
      const { deadline } = place;
      const waits = deadline?.place === place;
      if (waits) deadline.waited = answers ? 0 : deadline.waited + passed;
      if (waits && deadline.waited >= deadline.timeout) {
        this.timedOut = true;
        deadline.abort(new TimedOut(`no answer within ${Math.round(deadline.timeout)} ms`));
      }
      answers ||= place.answered;
      place.answered = false;
      return waits;
    });
  }

  /** Ends what was sent over a connection that is lost: its client may never say so. */
  lost(link) {
    for (const place of this.#places) {
      const waits = place.link === link && place.deadline?.place === place;
      if (waits) place.reject?.(new Error('the connection was lost'));
    }
  }
}

/** A command that was sent over a link, among all others in the order of sending. */
class Place {
  answered = false;
  reject = undefined; // as long as the reply is waited for

  constructor(deadline, link) {
    this.deadline = deadline;
    this.link = link;
  }
}

/**
 * The deadline of one call: after timeout milliseconds of silence, or when the caller's signal is aborted. It has what
 * node-redis uses of an AbortSignal, which would cost more than all the rest of a call.
 */
class Deadline {
  #works = undefined; // what to call when the call has to end
  #off = undefined; // the caller's signal is not listened to any more
  aborted = false;
  reason = undefined;
  waited = -period; // it may begin just before a look
  place = undefined;

  constructor(deadlines, timeout, signal) {
    this.deadlines = deadlines;
    this.timeout = timeout;
    this.signal = signal;
    if (signal) this.#off = onAbort(signal, () => this.abort(signal.reason));
  }

  /** Goes behind all other calls, because it is sent only now. */
  queue(link) {
    this.place = new Place(this, link);
    this.deadlines.add(this.place);
    return this.place;
  }

  /**
   * Resolves with what a client replies, or rejects when the call has to end: it may have run then. The link, if there
   * is one, is told of the reply, and makes the error of an error.
   */
  until(promise, link) {
    const place = this.queue(link);
    return new Promise((resolve, reject) => {
      place.reject = reject;
      promise.then((reply) => {
        place.answered = true;
        link?.replied();
        resolve(reply);
      }, (error) => {
        place.answered = isReply(error);
        reject(link ? link.failed(error) : error);
      });
    });
  }

  /** Resolves with the promise, or rejects as soon as the call has to end: nothing was sent. */
  before(promise, why) {
    return new Promise((resolve, reject) => {
      const stop = () => reject(new Unsent(why()));
      if (this.aborted) return stop();
      this.addEventListener('abort', stop);
      promise.then(resolve);
    });
  }

  abort(reason) {
    if (this.aborted) return;
    this.aborted = true;
    this.reason = reason;
    // First a reply that has arrived is read, and the client has a turn to say that it has not sent the command.
    if (this.place?.reject) setImmediate(this.place.reject, new Error('no reply', { cause: reason }));
    this.#works?.slice().forEach((work) => work());
  }

  addEventListener(_, work) {
    if (this.#works) this.#works.push(work);
    else this.#works = [work];
  }

  removeEventListener(_, work) {
    const at = this.#works?.indexOf(work) ?? -1;
    if (at >= 0) this.#works.splice(at, 1);
  }

  throwIfAborted() {
    if (this.aborted) throw this.reason;
  }

  /** The call has ended. */
  end() {
    // The place stays until the next look, but holds nothing.
    if (this.place) this.place.deadline = this.place.reject = undefined;
    this.place = undefined;
    this.#off?.();
  }
}

module.exports = { Deadlines, Deadline, TimedOut, Unsent };
