'use strict';

const { isUtf8 } = require('node:buffer');
const { createHash } = require('node:crypto');
const { isIP } = require('node:net');
const { ArgumentError, ExceedsLimitError, SluiceError, refuse, show, warn } = require('./errors');
const { isDecision } = require('./limiter');
const { checkOptions, checkFunction, integer } = require('./options');
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

/**
 * Counts by the address of the client, of IPv6 by its first ipv6Prefix bits. trustedProxies names those that append to
 * X-Forwarded-For: prefixes, addresses, or "unix" for Unix sockets.
 */
function keyByIP(options = {}) {
  checkOptions('keyByIP', 'keyByIP', options, ['trustedProxies', 'ipv6Prefix']);
  const { trustedProxies = [], ipv6Prefix = 64 } = options;
  checkStrings('keyByIP', 'trustedProxies', trustedProxies);
  integer('keyByIP', 'ipv6Prefix', ipv6Prefix, 1, 128);
  const prefixes = trustedProxies.filter((proxy) => proxy !== 'unix').map(parsePrefix);
  const trusts = (address) => prefixes.some((prefix) => prefix.holds(address));
  return (request, socket = request.socket) => {
    const peer = socket?.remoteAddress ?? '';
    let address = withoutPort(peer);
    const hops = request.headers['x-forwarded-for']?.split(',') ?? [];
    const unix = /^(?:$|@|\/|unix:)/.test(peer) && !socket?.destroyed; // one that was closed has no address either
    let proxy = address === undefined ? unix && trustedProxies.includes('unix') : trusts(address);
    while (proxy && hops.length > 0) {
      const [, hop = ''] = /^[ \t]*([^ \t](?:.*[^ \t])?)/s.exec(hops.pop()) ?? [];
      if (hop.toLowerCase() === 'unknown') break; // counted for the proxy that wrote it
      address = withoutPort(hop);
      proxy = address !== undefined && trusts(address);
      if (address === undefined) return '';
    }
    if (address === undefined && !socket?.destroyed) throw new NoPeer(peer);
    return address === undefined ? '' : addressText(address, BigInt(128 - ipv6Prefix));
  };
}

/** The server does not say from where a request comes, or names a proxy that does not. */
class NoPeer extends ArgumentError {
  constructor(peer) {
    const want = 'an address; give a key of your own, or trust "unix" if a proxy calls by a Unix socket';
    super(`keyByIP: peer ${show(peer)}: want ${want}`, { limiter: 'keyByIP', argument: 'peer', value: peer, want });
  }
}

// An address is a number of 128 bits: IPv4 is the IPv6 address ::ffff:192.0.2.7.
const isIPv4 = (address) => address >> 32n === 0xffffn;

/** Parses an address without a port. A zone is left out. Returns undefined if it is none. */
function parseAddress(text) {
  const [host, ...zone] = text.split('%');
  const family = isIP(host);
  if (family === 0 || (zone.length > 0 && (family === 4 || zone.join('%') === ''))) return undefined;
  const [left, right] = shortForm(family === 4 ? `::ffff:${host}` : host)
    .split('::')
    .map((part) => part.split(':').filter(Boolean));
  const groups = right ? [...left, ...Array(8 - left.length - right.length).fill('0'), ...right] : left;
  return groups.reduce((address, group) => (address << 16n) | BigInt(`0x${group}`), 0n);
}

/** Writes IPv6 in its short form, in hexadecimal. */
const shortForm = (address) => new URL(`http://[${address}]`).hostname.slice(1, -1);

/** Writes an address; of IPv6 a prefix, without so many bits. */
function addressText(address, rest) {
  if (isIPv4(address)) return [24n, 16n, 8n, 0n].map((shift) => (address >> shift) & 255n).join('.');
  const digits = ((address >> rest) << rest).toString(16).padStart(32, '0');
  return shortForm(digits.match(/.{4}/g).join(':')) + (rest > 0n ? `/${128n - rest}` : '');
}

/** Parses 192.0.2.7:80, [2001:db8::7]:80, [2001:db8::7], or an address without a port. */
function withoutPort(text) {
  const [, bracketed, other, port = 0] = /^(?:\[(.*)\]|([^:[\]]*))(?::(\d+))?$/.exec(text) ?? [];
  if (Number(port) > 65535 || (bracketed && isIP(bracketed) === 4)) return undefined;
  return parseAddress(bracketed ?? other ?? text);
}

function parsePrefix(proxy) {
  const [host, bits] = proxy.split('/');
  const [address, longest] = [parseAddress(host), isIP(host) === 4 ? 32 : 128];
  const length = bits === undefined ? longest : /^\d{1,3}$/.test(bits) ? Number(bits) : NaN;
  if (address === undefined || !(length <= longest)) {
    throw refuse('keyByIP', 'trustedProxies', proxy, 'a prefix ("10.0.0.0/8"), an address or "unix"');
  }
  const rest = BigInt(longest - length);
  const ofIPv4 = rest <= 32n && isIPv4(address);
  return { holds: (other) => isIPv4(other) === ofIPv4 && other >> rest === address >> rest };
}

module.exports = { expressLimit, fastifyLimit, headersOf, keyByHeader, keyByIP, subjectOf };
