import sluice from './index.js';

export const {
  Limits, keyOf, expressLimit, fastifyLimit, keyByAddress, subjectOf,
  SluiceError, ArgumentError, ExceedsLimitError, StateError, OutcomeUnknownError, UnavailableError, NotLoadedError,
  WaitError, SlotLostError, NotReservedError,
} = sluice;
