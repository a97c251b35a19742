// Middleware for Express and Fastify, and what it is made of.

import type { Decision, Duration, Limiter, Part, SluiceError } from './index.js';

/** A limiter, whom a request is counted for (one text, or several together), and how many permits; 1 by default. */
export type Charge = readonly [
  limiter: Limiter<any>, whom: string | undefined | readonly (string | undefined)[], permits?: number,
];

/** Says what a request is charged: [] if it is not limited; several limiters are charged all or none, as with all(). */
export type Charges = (request: any, socket?: { remoteAddress?: string }) =>
  readonly Charge[] | Promise<readonly Charge[]>;

/** What the middleware decided about a request. */
export interface Result {
  /**
   * 0 if the request goes on, or the status of its refusal: 429, 400 (no key), 500 (no peer) or 503 (Redis does not
   * decide). In shadow the request goes on all the same.
   */
  readonly status: 0 | 400 | 429 | 500 | 503;
  /** With the names of the limiters: of a denial only those that denied. */
  readonly decisions: readonly Part[];
  /** The time for the header Retry-After. 0: waiting does not help. */
  readonly retryAfterSeconds: number;
  /** Why there is no decision. */
  readonly error?: SluiceError;
}

/** Options of expressLimit() and fastifyLimit(). */
export interface MiddlewareOptions<Request, Response = any> {
  /** Whom a request is counted for: one text, or several. Default: keyByIP(). Without one, status 400. */
  key?: (request: Request, socket?: { remoteAddress?: string }) => string | undefined | (string | undefined)[];
  /** How many permits a request takes; 0: it is not limited. Default: 1. */
  cost?: (request: Request) => number;
  /**
   * Says by the status of the response whether the request counts: status => status === 401. It is charged before, and
   * given back in the background when a response has been sent that does not count. Not for gcra and tokenBucket.
   */
  count?: (status: number) => boolean;
  /** Answers a refusal. The headers of the limits are set already. Default: application/problem+json. */
  refuse?: (request: Request, response: Response, result: Result) => unknown;
  /** Decides and charges, and lets every request through, without headers. */
  shadow?: boolean;
  /** Is told of each decision before the request goes on, for logs and metrics. */
  observe?: (request: Request, result: Result) => void;
  /**
   * Holds a request until its permits come, if that is within this time (up to a day). If the client leaves, what was
   * booked is given back (listLog, zsetLog).
   */
  maxWait?: Duration;
  /**
   * How many requests at most are held, or being decided with maxWait; beyond it, who would have to wait is refused at
   * once. Default: 1000.
   */
  maxDelayed?: number;
}

type Headers = { headers: Record<string, string | string[] | undefined> };

/** Express 4 and 5, and node:http: app.post('/login', expressLimit(login), handler). */
export function expressLimit(
  limiter: Limiter<any> | Charges, options?: MiddlewareOptions<any>,
): (request: any, response: any, next: (error?: unknown) => void) => Promise<void>;

/** Fastify 5, as a hook: fastify.post('/login', { onRequest: fastifyLimit(login) }, handler). */
export function fastifyLimit(
  limiter: Limiter<any> | Charges, options?: MiddlewareOptions<any>,
): (request: any, reply: any) => Promise<any>;

/**
 * Returns the headers for a decision about a request: RateLimit-Policy, RateLimit, and Retry-After of a denial. Use it
 * in frameworks that have no middleware here.
 */
export function headersOf(limiter: { readonly name: string }, decision: Decision): Record<string, string>;

/** Counts by the value of a header, read as UTF-8. Use it instead of request.headers, which reads it as Latin-1. */
export function keyByHeader(name: string): (request: Headers) => string;

/**
 * Counts by the client's address, of IPv6 by its first 64 bits (ipv6Prefix: 1 to 128). trustedProxies names those that
 * append to X-Forwarded-For: prefixes ("10.0.0.0/8"), addresses, or "unix" for Unix sockets. A client that a proxy
 * calls "unknown" is counted for the proxy. If you know how many proxies there are and not their addresses, say hops:
 * with 2 the client is the second from the right. If there are fewer, or that one is no address, it is
 * the address of the connection, as with Envoy's xff_num_trusted_hops. Nobody may reach the service by fewer proxies:
 * who does writes what they like.
 */
export function keyByIP(options?: {
  trustedProxies?: string[];
  ipv6Prefix?: number;
  hops?: number;
}): (request: Headers, socket?: { remoteAddress?: string }) => string;

/** Returns the subject under which the middleware counts requests with these values. */
export function subjectOf(...values: string[]): string;
