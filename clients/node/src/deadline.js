'use strict';

const { isReply } = require('./errors');
const { onAbort } = require('./time');

const period = 10; // milliseconds between two looks at the calls
const busyShare = 1 / 20; // how much of the time counts in which this process is busy
const longestTurn = 100; // milliseconds: a longer turn of the event loop counts as one of these

const idleTime = () => performance.eventLoopUtilization().idle;

class TimedOut extends Error {}

/**
 * The deadlines of all calls on one client. What counts is the time in which this process waits and the server is
 * silent: not the time in which it answers what was sent earlier, and hardly the time in which this process is busy,
 * because it may not have read the reply yet, or not even sent the call. A burst is no outage.
 */
class Deadlines {
  #places = new Set(); // of calls, in the order of sending
  #timer;
  silent = 0; // milliseconds that calls have waited since the last reply
  timedOut = false; // one of them has timed out

  /** A reply has come, or another connection is used. */
  heard() {
    Object.assign(this, { silent: 0, timedOut: false });
  }

  add(place) {
    this.#places.add(place);
    this.#timer ??= this.#start();
    return place;
  }

  #start() {
    const [started, idle] = [performance.now(), idleTime()];
    return setTimeout(() => {
      const busy = Math.min(performance.now() - started, longestTurn) * busyShare;
      this.#look(Math.max(Math.min(idleTime() - idle, 2 * period), busy)); // more, if this process was stopped
      this.#timer = this.#places.size > 0 ? this.#start() : undefined;
    }, period);
  }

  /** Counts the time of the calls, and ends those that have waited too long. */
  #look(passed) {
    let answers = false; // to calls that were sent earlier
    this.silent += passed;
    for (const place of this.#places) {
      const { deadline } = place;
      if (deadline.place === place) deadline.waited = answers ? 0 : deadline.waited + passed;
      else this.#places.delete(place);
      if (deadline.waited >= deadline.timeout) {
        this.timedOut = true;
        deadline.abort(new TimedOut(`no answer within ${Math.round(deadline.timeout)} ms`));
      }
      answers ||= place.answered;
      place.answered = false;
    }
  }
}

/** The deadline of one call. Its signal is aborted when the call has to end. */
class Deadline {
  constructor(deadlines, timeout) {
    const controller = new AbortController();
    this.abort = (reason) => controller.abort(reason);
    Object.assign(this, { deadlines, timeout, signal: controller.signal });
    this.waited = -period; // it may begin just before a look
    this.queue();
  }

  /** Goes behind all other calls, because it is sent only now. */
  queue() {
    this.place = this.deadlines.add({ deadline: this, answered: false });
    return this.place;
  }

  /** Resolves with what the client resolves with, or rejects when the call has to end: it may have run then. */
  until(promise) {
    const place = this.queue();
    return new Promise((resolve, reject) => {
      // First a reply that has arrived is read, and the client has a turn to say that it has not sent the command.
      const stop = () => setImmediate(reject, new Error('no reply', { cause: this.signal.reason }));
      const off = onAbort(this.signal, stop);
      promise.then(resolve, reject).finally(off);
      promise.then(() => true, isReply).then((answered) => (place.answered = answered));
    });
  }

  /** The call has ended. */
  end() {
    this.place = undefined;
  }
}

module.exports = { Deadlines, Deadline, TimedOut };
