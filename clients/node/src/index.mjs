import sluice from './index.js';

export const {
  Limits, redisKey, expressLimit, fastifyLimit, headersOf, keyByHeader, keyByIP, subjectOf,
  SluiceError, ArgumentError, ExceedsLimitError, StateError, OutcomeUnknownError, UnavailableError, NotLoadedError,
  WaitError, SlotLostError, NotReservedError,
} = sluice;
