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

  add(place) {
    this.#places.add(place);
    this.#timer ??= this.#start();
    return place;
  }

  #start() {
    const [started, idle] = [performance.now(), idleTime()];
    return setTimeout(() => {
      const busy = Math.min(performance.now() - started, longestTurn) * busyShare;
      this.#look(Math.max(idleTime() - idle, busy));
      this.#timer = this.#places.size > 0 ? this.#start() : undefined;
    }, period);
  }

  /** Counts the time of the calls, and ends those that have waited too long. */
  #look(passed) {
    let answers = false; // to calls that were sent earlier
    for (const place of this.#places) {
      const { deadline } = place;
      if (deadline.place === place) deadline.waited = answers ? 0 : deadline.waited + passed;
      else this.#places.delete(place);
      if (deadline.waited >= deadline.timeout) deadline.expire();
      answers ||= place.answered;
      place.answered = false;
    }
  }
}

/** The deadline of one call. */
class Deadline {
  #controller = new AbortController();

  constructor(deadlines, timeout) {
    Object.assign(this, { deadlines, timeout, waited: -period }); // it may begin just before a look
    this.queue();
  }

  /** Aborted when the call has to end. */
  get signal() {
    return this.#controller.signal;
  }

  abort(reason) {
    this.#controller.abort(reason);
  }

  expire() {
    this.abort(new TimedOut(`no answer within ${this.timeout} ms`));
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
      const settled = (answered) => {
        off();
        place.answered = answered;
      };
      promise.then((reply) => resolve(reply, settled(true)), (error) => reject(error, settled(isReply(error))));
    });
  }

  /** The call has ended. */
  end() {
    this.place = undefined;
  }
}

module.exports = { Deadlines, Deadline, TimedOut };
