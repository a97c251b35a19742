'use strict';

const { keyByIP } = require('./address');
const { Left, admission } = require('./admission');
const { refuse } = require('./errors');
const { keyByHeader, subjectOf } = require('./keys');
const { isDecision } = require('./returns');
const { span } = require('./time');

// Middleware for Express and Fastify. Headers and bodies are as in the Go package httplimit.

/** Limits an Express route or application: app.post('/login', expressLimit(login), handler). */
function expressLimit(limiter, options = {}) {
  const decide = admission(limiter, options);
  const { shadow, refuse: answer = answerProblem } = options;
  return async (request, response, next) => {
    let refused = false;
    try {
      const result = await decide(request, request.socket, response);
      if (result && !shadow) setHeaders(response, result);
      refused = result?.status > 0 && !shadow;
      if (refused) await answer(request, response, result);
    } catch (error) {
      return error instanceof Left ? undefined : next(error);
    }
    return refused ? undefined : next();
  };
}

function answerProblem(request, response, result) {
  response.statusCode = result.status;
  response.setHeader('Content-Type', 'application/problem+json');
  response.end(JSON.stringify(problemOf(result)));
}

/** Limits Fastify routes, as a hook: fastify.post('/login', { onRequest: fastifyLimit(login) }, handler). */
function fastifyLimit(limiter, options = {}) {
  const decide = admission(limiter, options);
  const { shadow, refuse: answer = sendProblem } = options;
  return async (request, reply) => {
    try {
      const result = await decide(request, request.raw.socket, reply.raw);
      if (!result || shadow) return undefined;
      setHeaders(reply.raw, result);
      if (result.status === 0) return undefined;
      await answer(request, reply, result);
      return reply;
    } catch (error) {
      if (error instanceof Left) return reply.hijack();
      throw error;
    }
  };
}

function sendProblem(request, reply, result) {
  const body = Buffer.from(JSON.stringify(problemOf(result))); // to text Fastify would add a charset
  reply.code(result.status).header('Content-Type', 'application/problem+json').send(body);
}

/** Adds to the headers that other limits of the same request have set. */
function setHeaders(response, { decisions, retryAfterSeconds }) {
  for (const decision of decisions) {
    const { 'Retry-After': _, ...headers } = headersOf({ name: decision.limiter }, decision);
    for (const [name, value] of Object.entries(headers)) {
      const before = response.getHeader(name);
      response.setHeader(name, before === undefined ? value : `${before}, ${value}`);
    }
  }
  if (retryAfterSeconds > 0) response.setHeader('Retry-After', String(retryAfterSeconds));
}

const types = 'https://iana.org/assignments/http-problem-types#';
const problems = {
  400: { type: 'about:blank', title: 'The request does not say whom it is counted for' },
  429: {
    type: `${types}quota-exceeded`,
    title: 'Request cannot be satisfied as assigned quota has been exceeded',
  },
  500: { type: 'about:blank', title: 'The server does not know who calls it' },
  503: {
    type: `${types}temporary-reduced-capacity`,
    title: 'Request cannot be satisfied due to temporary server capacity constraints',
  },
};

/** The body of a refusal. */
function problemOf({ status, decisions }) {
  const violated = status === 429 && decisions.length > 0 && { 'violated-policies': decisions.flatMap(violatedOf) };
  return { ...problems[status], status, ...violated };
}

/** The windows that denied: of several those with the fewest permits remaining. */
function violatedOf(decision) {
  const items = itemsOf(decision.limiter, decision);
  const fewest = Math.min(...items.map(({ remaining }) => remaining));
  return items.filter(({ remaining }) => remaining === fewest).map(({ name }) => name);
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

module.exports = { expressLimit, fastifyLimit, headersOf, keyByHeader, keyByIP, subjectOf };
