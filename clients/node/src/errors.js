'use strict';

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
class NotLoadedError extends SluiceError {}
class WaitError extends SluiceError {}
class SlotLostError extends SluiceError {}
class NotReservedError extends SluiceError {}

/** Reports whether the server answered with an error. */
function isReply(error) {
  for (let kind = error?.constructor; kind; kind = Object.getPrototypeOf(kind)) {
    if (kind.name === 'ErrorReply' || kind.name === 'ReplyError') return true;
  }
  return false;
}

module.exports = {
  SluiceError, ArgumentError, ExceedsLimitError, StateError, OutcomeUnknownError, UnavailableError, NotLoadedError,
  WaitError, SlotLostError, NotReservedError, isReply,
};
