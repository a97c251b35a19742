/// <reference lib="esnext.disposable" />

// All times are in milliseconds, exact to the microsecond. Durations are given as a number of them or as text:
// "250ms", "1m", "1h30m", "366d".

/** A duration: milliseconds, or text such as "1m". Whole microseconds; anything else is an ArgumentError. */
export type Duration = number | string;

/** A client of node-redis 4.7 or later, ioredis 5.4 or later, iovalkey, or one of their clusters. */
export type Client = object;

export interface LimitsOptions {
  /** The beginning of every key: letters, digits, dot, underscore and dash. Default: "sluice". */
  prefix?: string;
  /** Never load scripts: a missing one is a NotLoadedError. Use it if the Redis user has no right to SCRIPT. */
  preloaded?: boolean;
  /**
   * How long one call waits for a server that is silent, retries included: 1 ms to 24 h, in steps of 10 ms. Default:
   * 1 s, and 100 ms with another onFailure than "error". Time in which the server answers earlier calls does not count,
   * and of the time in which this process is busy a twentieth: a process that is never idle waits up to 20 times as
   * long.
   */
  timeout?: Duration;
  /**
   * What happens when Redis does not decide. Default: "error". All other answers are degraded, and process.emitWarning
   * tells of them, the same once a minute at most.
   */
  onFailure?: OnFailure;
  /**
   * When a server is not asked any more: if it has answered nobody for a whole timeout, while so many calls have failed
   * (default: 5). One call at a time is sent, a pause after the one before (default: "250ms", 1 ms to a day); as soon
   * as one is answered, all are. Each node of a cluster has its own. false: it is always asked.
   */
  breaker?: { failures?: number; pause?: Duration } | false;
}

/**
 * While Redis does not decide, "error" rejects, "open" grants, and "deny" denies.
 * local limits in this process, to a share of the limit (above 0, up to 1): of n processes that share the load 1 / n.
 * It is a token bucket for each window, which starts full, of up to 10000 subjects; logs and rings grant up to twice
 * the share in a window. A call for more than the share holds is the error of Redis. Not for concurrency.
 */
export type OnFailure = 'error' | 'open' | 'deny' | { local: number };

/** How many permits a subject may have in any window. */
export interface Limit {
  /** Permits in a window: 0 or more, up to the limiter's maximum. With 0 everything is denied without asking Redis. */
  permits: number;
  /** 1 ms to 366 days, of rings 999 days. */
  window: Duration;
}

/** What a limiter may have of its own. */
export interface LimiterOptions {
  /** Replaces the one of Limits. */
  timeout?: Duration;
  onFailure?: OnFailure;
}

/** Options of limiters that can wait. */
export interface WaitingOptions extends LimiterOptions {
  /** How far ahead wait() and reserve() book (60 s at most), how long wait() and acquire() take. Default: no bound. */
  maxWait?: Duration;
}

/** Options of a call. */
export interface CallOptions {
  /** Ends the call. If it may have been charged, the error is an OutcomeUnknownError, otherwise the signal's reason. */
  signal?: AbortSignal;
}

/** Of a zsetLog: the id of the request, 1 to 128 bytes without "|". Asked again with it, a call is charged once. */
export interface IdOptions extends CallOptions {
  id?: string;
}

/** Options of wait() and reserve(). */
export interface WaitOptions extends CallOptions {
  /** Permits. Default: 1. */
  n?: number;
  /** Replaces the limiter's. */
  maxWait?: Duration;
}

/** The answer of a limiter, frozen. Its times are by the clock of Redis. */
export interface Decision {
  readonly granted: boolean;
  /** How many permits were granted: as many as were asked for, or 0. */
  readonly permits: number;
  /** How many could be granted now. */
  readonly remaining: number;
  /** Denied: until the permits come free, if no one else asks; Infinity if the limit is 0. Granted: 0 unless booked. */
  readonly wait: number;
  /**
   * wait in whole seconds for a Retry-After header: rounded up, at most 366 days. At least 1 for a denial; of a peek 0
   * if a permit is free.
   */
  readonly retryAfterSeconds: number;
  /** Until the subject has its whole limit again. */
  readonly resetAfter: number;
  /** The clock of Redis, in milliseconds since 1970. Not there if no server decided. */
  readonly now?: number;
  /** What it was made by: of a tokenBucket the stored limit, of a ring the tightest window, of a quota its period. */
  readonly limit: { readonly permits: number; readonly window: number; readonly burst?: number };
  /** Of a ring: how long a permit counts, at most: up to a slice longer than the window. */
  readonly countsFor?: number;
  /** Of a ring with several windows, tightest first. */
  readonly windows?: readonly WindowState[];
  /** The key under which granted permits are counted, of a ring the first. */
  readonly key?: string;
  /** Of a ring: the windows of a grant, to which giveBack() returns its permits. Slices are in microseconds. */
  readonly rings?: readonly { readonly slice: number; readonly size: number }[];
  /** Of a quota: the begin and the end of the period that counts, in milliseconds since 1970. */
  readonly periodBegin?: number;
  readonly periodEnd?: number;
  /** The id of the request, of a grant by zsetLog, budget or concurrency. */
  readonly id?: string;
  /** Whether onFailure decided, because Redis did not; cause says why. */
  readonly degraded: boolean;
  readonly cause?: Error;
}

/** The state of one window of a ring after a decision. */
export interface WindowState {
  readonly limit: { readonly permits: number; readonly window: number };
  /** Permits that this window would grant now. */
  readonly remaining: number;
  /** Until it is empty, at most. */
  readonly resetAfter: number;
  /** How long a permit counts in it, at most: up to a slice longer than the window. */
  readonly countsFor: number;
}

/**
 * What all limiters have that grant permits. A subject is text of 1 to 65536 bytes. Each call is one round trip. A
 * wrong argument is an ArgumentError; if Redis does not decide, it is an UnavailableError or an OutcomeUnknownError.
 */
export interface Limiter<Options = CallOptions> {
  readonly name: string;
  /** Asks for one permit now. Use it to refuse what is over the limit. */
  allow(subject: string, options?: Options): Promise<Decision>;
  /** Asks for n permits now, all or none. More than the limit is an ExceedsLimitError. */
  allowN(subject: string, n: number, options?: Options): Promise<Decision>;
  /**
   * Resolves when the permits may be used. Use it in workers. It books them in the order in which calls reach Redis,
   * across all processes; sliceRing, quota, and waits of more than 60 s, sleep and ask again. A wait longer than
   * maxWait is a WaitError at once. With maxWait it asks again while Redis is down.
   */
  wait(subject: string, options?: WaitOptions & Options): Promise<Decision>;
  /** Says what could be granted now, and changes nothing. Look at remaining: granted is always false. */
  peek(subject: string, options?: CallOptions): Promise<Decision>;
  /** Gives the subject its whole limit back. Use it to unblock a customer. */
  reset(subject: string, options?: CallOptions): Promise<void>;
}

/** A limiter that can book permits ahead: all but sliceRing and quota. */
export interface Reserver<Options = CallOptions> extends Limiter<Options> {
  /** Books permits for the earliest time at which they may be used, up to maxWait or 60 s ahead. Ask ok first. */
  reserve(subject: string, options?: WaitOptions & Options): Promise<Reservation>;
}

/** A limiter that can take permits back: listLog, zsetLog, sliceRing and quota. */
export interface Returner {
  /**
   * Gives back n (default: all) of the permits that a decision about the subject granted and that were certainly not
   * used. Resolves with how many were given back. After an OutcomeUnknownError do not repeat it.
   */
  giveBack(subject: string, decision: Decision, n?: number, options?: CallOptions): Promise<number>;
}

/** One limiter's decision in all(), for giveBack() of that limiter. */
export type Part = Decision & { readonly limiter: string; readonly subject: string };

/** The decision of the longest wait, or if all granted of the fewest permits remaining. */
export interface AllDecision extends Decision {
  /** In the order of the call, if all granted; otherwise empty. */
  readonly parts: readonly Part[];
  /** The denials, the longest wait first. */
  readonly denied: readonly Part[];
}

/** A booking that reserve() has made, or could not make: ask ok first. */
export interface Reservation {
  /** Whether the permits were booked. */
  readonly ok: boolean;
  readonly decision: Decision;
  /** Milliseconds from now until the permits may be used: Infinity if it is not ok. */
  readonly delay: number;
  /** Resolves when the permits may be used. A WaitError if it is not ok. */
  wait(options?: CallOptions): Promise<void>;
  /** Gives the permits back, unless they are due. With gcra and tokenBucket it is an ArgumentError. */
  cancel(options?: CallOptions): Promise<void>;
}

export interface ListLog extends Reserver, Returner {}
export interface ZSetLog extends Reserver<IdOptions>, Returner {}
export interface GCRA extends Reserver {}
export interface SliceRing extends Limiter, Returner {}

export interface TokenBucket extends Reserver {
  /** Stores the subject's limit in Redis, for all processes at once. */
  setRate(subject: string, limit: Limit, options?: CallOptions): Promise<void>;
}

/** A period of the calendar (a week begins on Monday), or one of your own: Dates, or milliseconds since 1970. */
export type Period = 'day' | 'week' | 'month' | 'year' | { begin: Date | number; end: Date | number };

export interface Quota extends Limiter, Returner {
  /**
   * Charges n permits, 0 to 10^12, whatever the period holds: a cost that is known only when the work is done. granted
   * says that it holds no more than the limit; otherwise wait is the time until one permit comes free. It is sent once,
   * and never left to onFailure: after an OutcomeUnknownError it may have been charged.
   */
  report(subject: string, n: number, options?: CallOptions): Promise<Decision>;
}

/** One limit, or one to eight windows, charged all or none. */
export type RingOptions = ({ windows: Limit[]; permits?: undefined; window?: undefined } | Limit) & {
  /**
   * The length of the slices of all windows, 1 ms to 24 h. Default: of each window a 200th. A window that is new to a
   * subject begins with what others have counted in its time.
   */
  slice?: Duration;
};

/** An estimate to be settled whatever happens: `await using r = await tokens.reserved(..)`, or settle() in finally. */
export interface Reserved {
  readonly granted: boolean;
  readonly decision: Decision;
  /** The actual cost, 0 or more. As long as it is not set, the estimate stays charged. */
  used: number | undefined;
  /**
   * Settles. What Redis does not answer goes on in the background for settleWithin: it does not reject, and
   * process.emitWarning tells of it.
   */
  settle(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** A cost that is known only afterwards. All calls with an id (1 to 128 bytes, the server's own) are counted once. */
export interface Budget {
  readonly name: string;
  /** Takes an estimate of 1 or more, in all windows or in none. */
  reserve(subject: string, id: string, estimate: number, options?: CallOptions): Promise<Decision>;
  /** reserve(), settled whatever happens. A lost reply is withdrawn. */
  reserved(subject: string, id: string, estimate: number, options?: CallOptions): Promise<Reserved>;
  /** Replaces the estimate by the actual cost. A NotReservedError if Redis does not know the id. */
  settle(subject: string, id: string, actual: number, options?: CallOptions): Promise<void>;
  /** settle() that charges an id that Redis does not know. With 0 it withdraws a reservation. */
  charge(subject: string, id: string, actual: number, options?: CallOptions): Promise<void>;
  peek(subject: string, options?: CallOptions): Promise<Decision>;
  reset(subject: string, options?: CallOptions): Promise<void>;
}

/** How many run at once. */
export interface Concurrency {
  readonly name: string;
  /** Takes a slot now; it is null if none is free. Use it to refuse what is over the limit. */
  tryAcquire(subject: string, options?: CallOptions): Promise<{ slot: Slot | null; decision: Decision }>;
  /**
   * Takes a slot as soon as one is free. With maxWait it asks again while Redis is down. After maxWait it is a
   * WaitError, or the error of the outage if Redis does not answer.
   */
  acquire(subject: string, options?: CallOptions & { maxWait?: Duration }): Promise<Slot>;
  peek(subject: string, options?: CallOptions): Promise<Decision>;
  reset(subject: string, options?: CallOptions): Promise<void>;
}

/** A slot that is held until release(). It renews its lease by itself. `await using slot = ..` releases it, too. */
export interface Slot {
  readonly subject: string;
  readonly decision: Decision;
  /** Aborted with a SlotLostError when the slot is lost: stop the work then. */
  readonly signal: AbortSignal;
  /** Frees the slot. A SlotLostError if it was lost before. */
  release(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Makes limiters on one Redis. Names (letters, digits, ".", "_", "-", "/"), limits and options are checked when a
 * limiter is made, and nothing is sent: what is wrong is an ArgumentError.
 */
export class Limits {
  constructor(client: Client, options?: LimitsOptions);
  /** Exact limits: no interval of one window holds more. The default choice. Up to 1000000 permits. */
  listLog(name: string, options: Limit & WaitingOptions): ListLog;
  /** As exact, with an id for each call: what is repeated is charged once. Up to 10000 permits. */
  zsetLog(name: string, options: Limit & WaitingOptions): ZSetLog;
  /** A smooth rate with a burst, in 161 bytes. Up to 10000000 permits; burst is 1 to 10000000, by default permits. */
  gcra(name: string, options: Limit & WaitingOptions & { burst?: number }): GCRA;
  /**
   * A rate of up to 1000000 permits that operators change in Redis. With perClient each clientId (by default a random
   * one for each Limits) has it to itself.
   */
  tokenBucket(name: string, options: Limit & WaitingOptions & { clientId?: string; perClient?: boolean }): TokenBucket;
  /** One to eight windows at once, and limits up to 10^9. */
  sliceRing(name: string, options: RingOptions & WaitingOptions): SliceRing;
  /**
   * What a period may hold, by the clocks of a zone ("Europe/Berlin"; UTC without one); of your own { begin, end } make
   * the limiter for the call. Around the end of a period up to twice as much may be granted at once. Up to 10^12
   * permits; onFailure is not local.
   */
  quota(
    name: string, options: { permits: number; period: Period; zone?: string; maxWait?: Duration } & LimiterOptions,
  ): Quota;
  /** A cost that is known only afterwards. Ids are known for settleWithin: 1 ms to 366 days, by default 15 minutes. */
  budget(name: string, options: RingOptions & LimiterOptions & { settleWithin?: Duration }): Budget;
  /** How many run at once: 0 to 10000 slots, under leases of ttl (1 ms to 366 days) that renew themselves. */
  concurrency(name: string, options: WaitingOptions & { slots: number; ttl: Duration }): Concurrency;
  /**
   * Asks several [limiter, subject, n = 1] in one round trip, and charges all of them or none. If one denies or
   * fails, what the others granted is given back in the background; until then others may be refused for it, so try
   * again after a random time. A lost reply of a listLog or a sliceRing stays charged.
   */
  all(parts: [Limiter<any> & Returner, string, number?][], options?: CallOptions): Promise<AllDecision>;
  /**
   * Waits, by default up to 10 s, for what is settled, released and given back in the background. Resolves with whether
   * all of it is done. Call it before you close the client.
   */
  flush(options?: { timeout?: Duration }): Promise<boolean>;
}

/** Returns the key under which a script keeps its state for a subject, to inspect it. */
export function redisKey(prefix: string, limiter: string, subject: string, state: string, parts?: string[]): string;

export * from './http.js';

/** The base of all errors of this package. */
export class SluiceError extends Error {}
/** An argument is wrong. There was no decision. */
export class ArgumentError extends SluiceError {
  /** The limiter, or the function that was called. */
  readonly limiter?: string;
  readonly script?: string;
  readonly argument: string;
  /** What was given; of an object its text in the message. */
  readonly value?: unknown;
  readonly want: string;
}
/** More permits at once than could ever be granted. */
export class ExceedsLimitError extends ArgumentError {}
/** A key holds something that the script did not write. reset() removes it. */
export class StateError extends SluiceError {
  readonly script: string;
  readonly keys: string[];
  readonly code: 'BADSTATE' | 'WRONGTYPE';
}
/** A call was sent and no reply came: it took effect once or not at all. */
export class OutcomeUnknownError extends SluiceError {
  readonly script: string;
  readonly keys: string[];
}
/** Redis did not decide, and nothing was charged. */
export class UnavailableError extends SluiceError {}
/** The script is not loaded, and may not be loaded from here. */
export class NotLoadedError extends UnavailableError {
  readonly script: string;
}
/** Waiting would take longer than maxWait, or would never end. */
export class WaitError extends SluiceError {
  readonly limiter: string;
  readonly wait?: number;
  /** Not there if no maxWait would help. */
  readonly maxWait?: number;
}
/** A slot was lost. */
export class SlotLostError extends SluiceError {
  readonly limiter: string;
  readonly subject: string;
}
/** Redis does not know the id that was to be settled. */
export class NotReservedError extends SluiceError {
  readonly limiter: string;
  readonly id: string;
}
