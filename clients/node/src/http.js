'use strict';

const { isUtf8 } = require('node:buffer');
const { createHash } = require('node:crypto');
const { NoPeer, keyByIP } = require('./address');
const { ArgumentError, ExceedsLimitError, SluiceError, refuse, warn } = require('./errors');
const { isDecision } = require('./limiter');
const { checkOptions, checkFunction } = require('./options');
const { checkStrings, isText } = require('./scripts');
const { span } = require('./time');

// Middleware for Express and Fastify. Headers, bodies and subjects are as in the Go package httplimit.

/** Limits an Express route or application: app.post('/login', expressLimit(login), handler). */
function expressLimit(limiter, options) {
  const decide = decider(limiter, options);
  return async (request, response, next) => {
    let answer;
    try {
      answer = await decide(request, request.socket);
    } catch (error) {
      return next(error);
    }
    for (const [name, value] of Object.entries(answer.headers)) appendHeader(response, name, value);
    if (!answer.refusal) return next();
    response.statusCode = answer.refusal.status;
    response.setHeader('Content-Type', 'application/problem+json');
    response.end(JSON.stringify(answer.refusal));
  };
}

/** Limits Fastify routes, as a hook: fastify.post('/login', { onRequest: fastifyLimit(login) }, handler). */
function fastifyLimit(limiter, options) {
  const decide = decider(limiter, options);
  return async (request, reply) => {
    const answer = await decide(request, request.raw.socket);
    for (const [name, value] of Object.entries(answer.headers)) appendHeader(reply.raw, name, value);
    if (!answer.refusal) return undefined;
    const body = Buffer.from(JSON.stringify(answer.refusal)); // to text Fastify would add a charset
    return reply.code(answer.refusal.status).header('Content-Type', 'application/problem+json').send(body);
  };
}

/** Adds to the headers that other limits of the same request have set. */
function appendHeader(response, name, value) {
  const before = name === 'Retry-After' ? undefined : response.getHeader(name);
  response.setHeader(name, before === undefined ? value : `${before}, ${value}`);
}

/** Returns a function that decides about a request: the headers, and the body of a refusal if there is one. */
function decider(limiter, options = {}) {
  checkOptions('middleware', 'the middleware', options, ['key', 'cost']);
  const { key = keyByIP(), cost = () => 1 } = options;
  checkFunction('middleware', 'key', key);
  checkFunction('middleware', 'cost', cost);
  if (typeof limiter?.allowN !== 'function') throw refuse('middleware', 'limiter', limiter, 'a limiter with allow()');
  return async (request, socket) => {
    const n = cost(request);
    if (n === 0) return { headers: {} };
    let values;
    try {
      values = [key(request, socket)].flat();
    } catch (error) {
      if (!(error instanceof NoPeer)) throw error;
      warn(limiter.name, 'the answer was status 500', error);
      return { headers: {}, refusal: refusals.noPeer };
    }
    if (!values.every((value) => isText(value) && value !== '')) return { headers: {}, refusal: refusals.noKey };
    try {
      const decision = await limiter.allowN(subjectOf(...values), n);
      return { headers: headersOf(limiter, decision), refusal: refusalOf(limiter, decision) };
    } catch (error) {
      if (error instanceof ExceedsLimitError) return { headers: {}, refusal: { ...refusals.denied } };
      if (error instanceof ArgumentError || !(error instanceof SluiceError)) throw error;
      warn(limiter.name, 'Redis did not decide, the answer was status 503', error);
      return { headers: {}, refusal: refusals.undecided };
    }
  };
}

const types = 'https://iana.org/assignments/http-problem-types#';
const refusals = {
  noKey: { type: 'about:blank', title: 'The request does not say whom it is counted for', status: 400 },
  noPeer: { type: 'about:blank', title: 'The server does not know who calls it', status: 500 },
  denied: {
    type: `${types}quota-exceeded`,
    title: 'Request cannot be satisfied as assigned quota has been exceeded',
    status: 429,
  },
  undecided: {
    type: `${types}temporary-reduced-capacity`,
    title: 'Request cannot be satisfied due to temporary server capacity constraints',
    status: 503,
  },
};

function refusalOf(limiter, decision) {
  if (decision.granted) return undefined;
  if (decision.degraded && decision.wait === 0) return refusals.undecided;
  const items = itemsOf(limiter.name, decision);
  const fewest = Math.min(...items.map(({ remaining }) => remaining));
  const violated = items.filter(({ remaining }) => remaining === fewest).map(({ name }) => name);
  return { ...refusals.denied, 'violated-policies': violated };
}

/** RateLimit-Policy and RateLimit as in draft-ietf-httpapi-ratelimit-headers-11, and Retry-After of a denial. */
function headersOf(limiter, decision) {
  if (typeof limiter?.name !== 'string') throw refuse('headersOf', 'limiter', limiter, 'a limiter');
  if (!isDecision(decision)) throw refuse('headersOf', 'decision', decision, 'a decision');
  const headers = {};
  const items = itemsOf(limiter.name, decision);
  headers['RateLimit-Policy'] = items.map((item) => `"${item.name}"${quotaOf(item)}`).join(', ');
  if (!decision.degraded) headers.RateLimit = items.map((item) => remainingOf(item, decision)).join(', ');
  if (!decision.granted && decision.wait > 0 && decision.wait !== Infinity) {
    headers['Retry-After'] = String(seconds(decision.wait));
  }
  return headers;
}

/** An item for each window, the shortest first. */
function itemsOf(name, { windows, limit, remaining, resetAfter, countsFor }) {
  if (!windows) return [{ name, limit, remaining, resetAfter, countsFor }];
  const order = (a, b) => a.limit.window - b.limit.window || a.limit.permits - b.limit.permits;
  const spanOf = (item) => span(Math.round(item.limit.window * 1e3));
  return [...windows].sort(order).map((item) => ({ ...item, name: `${name}-${spanOf(item)}` }));
}

/** Milliseconds that a permit counts longer than its window without a word: a second has w=1. */
const unshown = 10;

/** The window in seconds: of a burst the time that refills it. */
function windowOf({ limit: { permits, window, burst }, countsFor = 0 }) {
  return seconds(Math.max(burst && permits ? (burst * window) / permits : window, countsFor - unshown));
}

function quotaOf(item) {
  const { permits, burst } = item.limit;
  return `;q=${burst && permits ? burst : permits}${windowOf(item) > 0 ? `;w=${windowOf(item)}` : ''}`;
}

function remainingOf(item, { granted, wait }) {
  const reset = granted ? item.resetAfter : Math.min(item.resetAfter, wait);
  const t = Math.min(seconds(reset), windowOf(item) || Infinity); // t is never above w
  return `"${item.name}";r=${item.remaining}${wait === Infinity ? '' : `;t=${t}`}`;
}

/** Milliseconds in whole seconds, rounded up. */
const seconds = (ms) => Math.ceil(Math.round(ms * 1e3) / 1e6);

/** Returns the subject of a list of values. Different lists have different subjects. */
function subjectOf(...values) {
  checkStrings('subjectOf', 'values', values);
  return values.map(coded).join('|');
}

function coded(value) {
  if (value === '') return '~';
  if (Buffer.byteLength(value) > 128) return `~2${createHash('sha256').update(value).digest('base64url')}`;
  return value.replaceAll('~', '~0').replaceAll('|', '~1');
}

/** Counts by the value of a header, whose bytes are read as UTF-8. */
function keyByHeader(name) {
  checkStrings('keyByHeader', 'name', [name]);
  return ({ headers }) => {
    const bytes = Buffer.from(headers[name.toLowerCase()] ?? '', 'latin1');
    return isUtf8(bytes) ? bytes.toString() : '';
  };
}

module.exports = { expressLimit, fastifyLimit, headersOf, keyByHeader, keyByIP, subjectOf };
