'use strict';

const { inspect } = require('node:util');

/** The base of all errors of this package, apart from the reason of a caller's own AbortSignal. See index.d.ts. */
class SluiceError extends Error {
  constructor(message, { cause, ...fields } = {}) {
    super(`sluice: ${message}`, cause === undefined ? undefined : { cause });
    Object.assign(this, fields);
  }

  get name() {
    return this.constructor.name;
  }
}

class ArgumentError extends SluiceError {}
class ExceedsLimitError extends ArgumentError {}
class StateError extends SluiceError {}
class OutcomeUnknownError extends SluiceError {}
class UnavailableError extends SluiceError {}
class NotLoadedError extends UnavailableError {}
class WaitError extends SluiceError {}
class SlotLostError extends SluiceError {}
class NotReservedError extends SluiceError {}

/** Writes a value for an error: strings in quotes, and of what has a class only its name. A client has a password. */
function show(value) {
  if (typeof value === 'string') return JSON.stringify(value);
  const kind = isObject(value) ? value.constructor?.name : undefined;
  return !kind || kind === 'Object' || kind === 'Array' ? inspect(value, { depth: 0, breakLength: Infinity }) : kind;
}

const isObject = (value) => typeof value === 'object' && value !== null;

/** Returns the error of a wrong argument. limiter is its limiter, or the function that was called. */
function refuse(limiter, argument, value, want, text) {
  const message = text ?? `${argument} ${show(value)}: want ${want}`;
  const fields = { limiter, argument, value: isObject(value) ? show(value) : value, want };
  return new ArgumentError(limiter ? `${limiter}: ${message}` : message, fields);
}

const told = new Map(); // by the names of limiters: when a warning was emitted, and how many were left out since

/** Tells operators that Redis did not decide, once a second for a name at most, and without keys. */
function warn(name, outcome, error) {
  const last = told.get(name) ?? { time: -Infinity, more: 0 };
  told.set(name, last);
  if (performance.now() - last.time < 1000) return void last.more++;
  const why = error instanceof StateError ? `${error.script}: ${error.code}` : error.message.replace('sluice: ', '');
  const more = last.more > 0 ? ` (and ${last.more} more)` : '';
  Object.assign(last, { time: performance.now(), more: 0 });
  process.emitWarning(`${name}: Redis did not decide, ${outcome}: ${why}${more}`, 'SluiceWarning');
}

/** Reports whether the server answered with an error. */
function isReply(error) {
  for (let kind = error?.constructor; kind; kind = Object.getPrototypeOf(kind)) {
    if (kind.name === 'ErrorReply' || kind.name === 'ReplyError') return true;
  }
  return false;
}

module.exports = {
  SluiceError, ArgumentError, ExceedsLimitError, StateError, OutcomeUnknownError, UnavailableError, NotLoadedError,
  WaitError, SlotLostError, NotReservedError, isReply, refuse, show, warn,
};
