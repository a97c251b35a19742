'use strict';

const { Breakers } = require('./breaker');
const { connect } = require('./connection');
const { Deadline, TimedOut, Unsent } = require('./deadline');
const errors = require('./errors');
const { sleep, jitter } = require('./time');

const { codeOf, isReply } = errors;

const maxRetries = 3; // after attempts that have not run
const maxTryAgain = 12; // while a slot moves: about a second
const maxReloads = 8; // of a script that is flushed again and again
const pauses = [8, 32, 128]; // milliseconds before a retry

/** Error replies that prove that the script did not run, and that may be over soon. */
const notRun = [
  'TRYAGAIN', 'LOADING', 'READONLY', 'CLUSTERDOWN', 'MASTERDOWN', 'BUSY', 'NOREPLICAS', 'MAXCLIENTS', 'NOAUTH',
  'WRONGPASS',
];
/** With these Redis refuses a command of a script, which takes back what it wrote before. */
const refused =
  /^(?:OOM|NOPERM|MISCONF|.*(?:can't run this command|unknown (?:redis )?command|after non deterministic commands))/is;

/** Sends commands, each within its time, and runs scripts by EVALSHA. */
class Caller {
  constructor(client, preloaded, breaker) {
    this.connection = connect(client);
    this.breakers = breaker && new Breakers(breaker, this.connection);
    this.preloaded = preloaded;
    this.loads = new Map();
  }

  /**
   * Runs a script. Returns its reply, an array of integers.
   *
   * It ends when the server has been silent for timeout milliseconds, or as soon as the signal is aborted. It repeats
   * an attempt that has not run, and after a lost reply only what counts once: with repeats, and with peeks, which
   * writes nothing.
   */
  run(script, keys, args, { timeout, signal, repeats = false, peeks = false }) {
    signal?.throwIfAborted();
    const breaker = this.breakers?.of(keys[0]);
    breaker?.admit(timeout);
    const end = new Deadline(this.connection.deadlines, timeout, signal);
    return new Call(this, breaker, script, keys, repeats, peeks, end).run(args);
  }

  /** Sends another command, once. A lost reply is an UnavailableError. */
  async command(words, key, { timeout, signal }) {
    signal?.throwIfAborted();
    const end = new Deadline(this.connection.deadlines, timeout, signal);
    try {
      return await this.attempt(words, key, end);
    } catch (error) {
      throw unavailable(words[0].toUpperCase(), error, end);
    } finally {
      end.end();
    }
  }

  /** Sends a command once. Rejects with an error reply, with Unsent, or with another error if it may have run. */
  attempt(words, key, end) {
    if (end.aborted) throw new Unsent('there was no time left');
    return this.connection.send(words, key, end);
  }

  /** Loads a script, once for all who need it now. */
  load(script, end) {
    let loading = this.loads.get(script);
    if (!loading) {
      loading = this.connection.load(script.source, end).finally(() => this.loads.delete(script));
      this.loads.set(script, loading);
    }
    return end.until(loading);
  }
}

/** One run of a script, with all its attempts. */
class Call {
  retries = 0;
  reloads = 0;
  lost = undefined; // an attempt may have run
  failure = undefined; // of the last attempt

  constructor(caller, breaker, script, keys, repeats, peeks, end) {
    this.caller = caller;
    this.breaker = breaker;
    this.script = script;
    this.keys = keys;
    this.repeats = repeats;
    this.peeks = peeks;
    this.end = end;
  }

  async run(args) {
    const { caller, script, keys, end } = this;
    const words = ['evalsha', script.sha1, String(keys.length), ...keys, ...args];
    try {
      let reply;
      do {
        this.failure = undefined;
        try {
          reply = await caller.attempt(words, keys[0], end);
        } catch (error) {
          this.failure = error;
          await this.recover(error);
        }
      } while (this.failure);
      return reply.map(Number);
    } finally {
      end.end();
      if (end.signal?.aborted) this.breaker?.leave();
      else this.breaker?.report(this.failure);
    }
  }

  /** Prepares the next attempt, or throws what ends the call. */
  async recover(error) {
    if (isReply(error)) return this.afterReply(error);
    if (!(error instanceof Unsent) && !this.peeks) {
      this.lost = error;
      if (!this.repeats) throw this.failed(error);
    }
    return this.pause(error, maxRetries);
  }

  async afterReply(error) {
    const code = codeOf(error);
    if (code === 'NOSCRIPT') return this.reload(error);
    const isMoved = code === 'MOVED' && this.caller.connection.isCluster;
    if (isMoved || notRun.includes(code)) return this.pause(error, code === 'TRYAGAIN' ? maxTryAgain : maxRetries);
    throw this.final(code, error);
  }

  /** Loads the script. Nothing has run. */
  async reload(error) {
    if (this.caller.preloaded || ++this.reloads > maxReloads) throw this.notLoaded(error);
    try {
      await this.caller.load(this.script, this.end);
    } catch (failure) {
      if (isReply(failure) && !notRun.includes(codeOf(failure))) throw this.notLoaded(failure);
      await this.pause(failure, maxRetries);
    }
  }

  notLoaded(cause) {
    return new errors.NotLoadedError(
      `${this.script.id} is not loaded (${this.script.sha1}): run "sluice load", or ` +
        `"redis-cli -x SCRIPT LOAD < ${this.script.file}" on every node (${cause.message})`,
      { script: this.script.id, cause },
    );
  }

  /** Pauses before a retry, unless there were too many or the time is up. */
  async pause(error, limit) {
    const pause = jitter(pauses[Math.min(this.retries, pauses.length - 1)]);
    if (++this.retries > limit || this.end.aborted) throw this.failed(error);
    await sleep(pause, this.end).catch(() => {
      throw this.failed(error);
    });
  }

  /** Returns the error of a call without a reply. */
  failed(error) {
    if (this.lost === undefined) return unavailable(this.script.id, error, this.end);
    const cause = this.end.aborted ? this.end.reason : error;
    return new errors.OutcomeUnknownError(
      `${this.script.id}: outcome unknown: it took effect once or not at all: ${cause?.message}`,
      { script: this.script.id, keys: this.keys, cause },
    );
  }

  /** Returns the error of a reply that a retry would not change. */
  final(code, error) {
    const text = error.message.slice(error.message.indexOf(' ') + 1);
    const fields = { script: this.script.id, keys: this.keys, cause: error };
    if (code === 'BADARG') {
      const [argument, want] = text.split(': want ');
      const exceeds = argument === 'permits' && want?.startsWith('up to');
      const Kind = exceeds ? errors.ExceedsLimitError : errors.ArgumentError;
      return new Kind(`${this.script.id}: bad ${text}`, { ...fields, argument, want });
    }
    if (code === 'BADSTATE' || code === 'WRONGTYPE') {
      const message = `${this.script.id}: ${error.message} (keys ${this.keys.join(', ')}): reset() removes it`;
      return new errors.StateError(message, { ...fields, code });
    }
    const stopped = text.includes('@user_script') && !this.peeks;
    if (stopped && !refused.test(error.message)) this.lost = error; // it may have written before
    if (code === 'MOVED') error.message += '; the server is a node of a cluster: give Limits a client of the cluster';
    return this.failed(error);
  }
}

function unavailable(what, error, end) {
  const { aborted, reason } = end;
  if (aborted && !(reason instanceof TimedOut)) return reason; // the caller's own
  const late = aborted ? `${reason.message}: ` : '';
  return new errors.UnavailableError(errors.cured(`${what}: ${late}${error.message}`), { cause: error });
}

module.exports = { Caller };
