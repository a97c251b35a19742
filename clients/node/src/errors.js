'use strict';

/** The base of all errors of this package, apart from the reason of a caller's own AbortSignal. */
class SluiceError extends Error {
  constructor(message, { cause, ...fields } = {}) {
    super(`sluice: ${message}`, cause === undefined ? undefined : { cause });
    Object.assign(this, fields);
  }

  get name() {
    return this.constructor.name;
  }
}

/** An argument is wrong. There was no decision, and nothing was written. */
class ArgumentError extends SluiceError {}

/** More permits were asked for at once than could ever be granted. */
class ExceedsLimitError extends ArgumentError {}

/** A key holds something that the script did not write. There was no decision. reset() removes it. */
class StateError extends SluiceError {}

/** A call was sent and no reply came. It was charged once or not at all. */
class OutcomeUnknownError extends SluiceError {}

/** Redis did not decide, and nothing was charged. */
class UnavailableError extends SluiceError {}

/** The server does not have the script, and it may not be loaded from here. */
class NotLoadedError extends SluiceError {}

/** Waiting would take longer than maxWait allows, or would never end. Nothing is booked. */
class WaitError extends SluiceError {}

/** A slot was lost: its work may no longer be the only one, and has to stop. */
class SlotLostError extends SluiceError {}

/** Redis does not know the id that was to be settled. Nothing was changed. */
class NotReservedError extends SluiceError {}

module.exports = {
  SluiceError,
  ArgumentError,
  ExceedsLimitError,
  StateError,
  OutcomeUnknownError,
  UnavailableError,
  NotLoadedError,
  WaitError,
  SlotLostError,
  NotReservedError,
};
