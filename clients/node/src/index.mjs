import sluice from './index.js';

export const {
  Limits, keyOf, expressLimit, fastifyLimit, headersOf, keyByAddress, keyByHeader, subjectOf,
  SluiceError, ArgumentError, ExceedsLimitError, StateError, OutcomeUnknownError, UnavailableError, NotLoadedError,
  WaitError, SlotLostError, NotReservedError,
} = sluice;
