// The middleware in Express 4 and 5 and Fastify, over HTTP.
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import { test } from 'node:test';
import express5 from 'express';
import express4 from 'express4';
import Fastify from 'fastify';
import { Limits, expressLimit, fastifyLimit, keyByHeader, keyByIP, subjectOf } from 'sluice-redis';
import { open } from './clients.js';
import { startRedis, until } from './servers.js';

/** Starts an application in a framework with routes { path: [limiter, options] }. Returns its URL. */
const frameworks = {
  'Express 5': (t, routes) => expressApp(t, express5, routes),
  'Express 4': (t, routes) => expressApp(t, express4, routes),
  'Fastify 5': async (t, routes) => {
    const app = Fastify();
    t.after(() => app.close());
    for (const [path, [limiter, options]] of Object.entries(routes)) {
      app.get(path, { onRequest: fastifyLimit(limiter, options) }, async (request, reply) => {
        reply.code(Number(request.headers['x-status'] ?? 200));
        return 'served';
      });
    }
    return app.listen({ port: 0, host: '127.0.0.1' });
  },
};

async function expressApp(t, express, routes) {
  const app = express();
  for (const [path, [limiter, options]] of Object.entries(routes)) {
    app.get(path, expressLimit(limiter, options), (request, response) => {
      response.status(Number(request.headers['x-status'] ?? 200)).send('served');
    });
  }
  const server = http.createServer(app);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return `http://127.0.0.1:${server.address().port}`;
}

async function get(url, headers) {
  const response = await fetch(url, { headers: { connection: 'close', ...headers } });
  const names = ['ratelimit-policy', 'ratelimit', 'retry-after', 'content-type'];
  return [response.status, ...names.map((name) => response.headers.get(name)), await response.text()];
}

/** The whole answer to a HEAD request. */
async function headOf(url, path) {
  const socket = net.connect(new URL(url).port, '127.0.0.1');
  socket.write(`HEAD ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
  return (await socket.toArray()).join('');
}

const registry = 'https://iana.org/assignments/http-problem-types#';
const problems = {
  429: [`${registry}quota-exceeded`, 'Request cannot be satisfied as assigned quota has been exceeded'],
  503: [
    `${registry}temporary-reduced-capacity`,
    'Request cannot be satisfied due to temporary server capacity constraints',
  ],
};

for (const [framework, start] of Object.entries(frameworks)) {
  test(framework, async (t) => {
    const redis = await startRedis(t);
    const limits = new Limits(await open(t, redis.url), { timeout: '10s' });
    const gone = new Limits({ sendCommand: async () => Promise.reject(new Error('down')) });
    const byKey = { key: (request) => request.headers['x-api-key'] };
    const windows = [{ permits: 100, window: '1h' }, { permits: 1, window: '90s' }];
    const url = await start(t, {
      '/login': [limits.listLog('login', { permits: 1, window: '1m' })],
      '/ring': [limits.sliceRing('ring', { windows, slice: '5s' }), byKey],
      '/second': [limits.sliceRing('second', { windows: [{ permits: 5, window: '1s' }] })],
      '/burst': [limits.gcra('burst', { permits: 5, window: '1m', burst: 20 }), { ...byKey, cost: () => 20 }],
      '/never': [limits.listLog('never', { permits: 0, window: '1m' })],
      '/costly': [limits.listLog('costly', { permits: 1, window: '1m' }), { cost: () => 2 }],
      '/free': [limits.listLog('free', { permits: 0, window: '1m' }), { cost: () => 0 }],
      '/down': [gone.listLog('down', { permits: 1, window: '1m' })],
      '/open': [gone.sliceRing('open', { windows, onFailure: 'open' })],
      '/denied': [gone.listLog('denied', { permits: 1, window: '1m', onFailure: 'deny' })],
      '/local': [gone.listLog('local', { permits: 1, window: '1m', onFailure: { local: 1 } })],
      '/wrong': [limits.listLog('wrong', { permits: 1, window: '1m' }), { cost: () => 0.5 }],
    });

    /** Paths, keys, and the status, headers and violated policies of the answers; of those that are left out any. */
    const granted = [200, '"login";q=1;w=60', '"login";r=0;t=60', null, /^text/, undefined];
    for (const [path, key, ...want] of [
      ['/login', , ...granted],
      ['/login', , 429, granted[1], /^"login";r=0;t=(59|60)$/, /^(59|60)$/, 'application/problem+json', ['login']],
      ['/second', , 200, '"second";q=5;w=1', '"second";r=4;t=1'],
      ['/ring', 'a|b', 200, '"ring-1m30s";q=1;w=95, "ring-1h";q=100;w=3605',
        /^"ring-1m30s";r=0;t=9[0-5], "ring-1h";r=99;t=360[0-5]$/],
      ['/ring', 'a|b', 429, , , , , ['ring-1m30s']],
      ['/ring', , 400],
      ['/burst', 'a', 200, '"burst";q=20;w=240', '"burst";r=0;t=240'],
      ['/never', , 429, '"never";q=0;w=60', '"never";r=0', null],
      ['/costly', , 429],
      ['/free', , 200, null],
      ['/wrong', , 500],
      ['/down', , 503, null],
      ['/open', , 200, '"open-1m30s";q=1;w=91, "open-1h";q=100;w=3618', null],
      ['/denied', , 503],
      ['/local', , 200],
      ['/local', , 429],
    ]) {
      const answer = await get(url + path, key && { 'x-api-key': key });
      const body = answer[4] === 'application/problem+json' ? JSON.parse(answer.pop()) : { served: answer.pop() };
      for (const [i, found] of [...answer, body['violated-policies']].entries()) {
        const where = `${path} ${key}: ${want[i]} is ${found}`;
        if (want[i] instanceof RegExp) assert.match(found, want[i], where);
        else if (i in want && want[i] !== undefined) assert.deepEqual(found, want[i], where);
      }
      const [type, title] = problems[answer[0]] ?? [];
      if (type) assert.deepEqual([body.type, body.title, body.status], [type, title, answer[0]], path);
      else if (answer[0] === 200) assert.equal(body.served, 'served');
    }
    assert.equal(redis.cli('EXISTS', 'sluice:ring:{a~1b}:sr1:5000000x19'), '1');

    const head = await headOf(url, '/login');
    assert.match(head, /^HTTP\/1.1 429 [^]*application\/problem\+json[^]*\r\n\r\n$/i);
  });
}

test('a preflight is answered before it is counted, and Express sees no handshake of a WebSocket', async (t) => {
  let asked = 0;
  const limits = new Limits({ sendCommand: async () => [0, 0, ++asked, 60000000, 1795190573204223] });
  const app = express5();
  app.use((request, response, next) => (request.method === 'OPTIONS' ? response.sendStatus(204) : next()));
  app.use(expressLimit(limits.listLog('api', { permits: 1, window: '1m' })));
  const server = http.createServer(app);
  server.on('upgrade', (request, socket) => socket.end('HTTP/1.1 101 Switching\r\n\r\n'));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address();
  const statusOf = (method, headers) => new Promise((resolve, reject) => {
    const request = http.request({ port, method, headers: { connection: 'close', ...headers } });
    for (const event of ['response', 'upgrade']) request.on(event, ({ statusCode }) => resolve(statusCode));
    request.on('error', reject).end();
  });
  assert.equal(await statusOf('OPTIONS'), 204);
  assert.equal(await statusOf('GET', { connection: 'Upgrade', upgrade: 'websocket' }), 101);
  assert.equal(asked, 0);
  assert.equal(await statusOf('POST'), 429);
});

/** What both middlewares do alike, with routes of their own. */
for (const [framework, start] of Object.entries(frameworks)) {
  test(`${framework}: charges, count, refuse, shadow, observe`, async (t) => {
    const redis = await startRedis(t);
    const limits = new Limits(await open(t, redis.url), { timeout: '10s' });
    const gone = new Limits({ sendCommand: async () => Promise.reject(new Error('down')) });
    const plans = { free: 1, team: 2 };
    const month = limits.quota('month', { permits: 4, period: 'month' });
    const charges = async ({ headers: { plan, count = 2, ...headers }, ...request }) => {
      if (headers.free) return [];
      const api = limits.listLog('api', { permits: plans[plan], window: '1m' });
      return [[api, [headers.user, 'ada']], [month, 'ada', 2]].slice(0, Number(count));
    };
    const seen = [];
    const observe = (request, { status, decisions, retryAfterSeconds }) =>
      seen.push([status, decisions.map(({ limiter, remaining }) => [limiter, remaining]), retryAfterSeconds]);
    const one = (name, from = limits) => from.listLog(name, { permits: 1, window: '1m' });
    const refuse = async (request, response, { retryAfterSeconds }) =>
      response[response.sent === undefined ? 'status' : 'code'](420).send(`in ${retryAfterSeconds} s`);
    const url = await start(t, {
      '/': [charges],
      '/failed': [({ headers: { user } }) => [[one('failed'), user], [month, user, 2]], { count: (s) => s === 401 }],
      '/own': [one('own'), { refuse }],
      '/shadow': [one('shadow'), { shadow: true, observe, maxWait: '1h' }],
      '/down': [one('down', gone), { shadow: true, observe }],
      '/unknown': [() => undefined],
      '/nobody': [() => [[one('nobody'), '']]],
    });
    const ask = (headers, path = '/') => get(url + path, { user: 'u', ...headers });
    assert.equal((await ask({ free: 'yes' }))[1], null);
    const [status, policy, left] = await ask({ plan: 'free' });
    assert.equal(status, 200);
    assert.match(`${policy} ${left}`, /^"api";q=1;w=60, "month";q=4;w=\d+ "api";r=0;t=60, "month";r=2;t=\d+$/);
    const calls = [['free', 1], ['team', 1], ['team', 1], ['free', 2]];
    const answers = [];
    for (const [plan, count] of calls) answers.push(await ask({ plan, count }));
    assert.deepEqual(answers.map(([code]) => code), [429, 200, 429, 429]);
    assert.equal(answers[3][1], '"api";q=1;w=60');
    assert.deepEqual(JSON.parse(answers[3][5])['violated-policies'], ['api']);
    assert.equal(redis.cli('EXISTS', 'sluice:api:{u|ada}:ll1'), '1');
    await limits.flush(); // what was granted beside a denial goes back

    const statuses = [];
    for (const said of [200, 302, 401, 200]) {
      statuses.push((await ask({ 'x-status': said, user: 'ada' }, '/failed'))[0]);
      await limits.flush();
    }
    assert.deepEqual(statuses, [200, 302, 401, 429]);
    assert.equal((await month.peek('ada')).remaining, 0, 'a failure counts in all');
    await ask({}, '/own');
    const own = await ask({}, '/own');
    assert.deepEqual([own[0], own[3], own[5]], [420, '60', 'in 60 s']);
    const free = [await ask({}, '/shadow'), await ask({}, '/shadow'), await ask({}, '/down')];
    assert.deepEqual(free.map(([code, said]) => [code, said]), [[200, null], [200, null], [200, null]]);
    assert.deepEqual(seen, [[0, [['shadow', 0]], 0], [429, [['shadow', 0]], 60], [503, [], 0]]);
    assert.deepEqual([(await ask({}, '/unknown'))[0], (await ask({}, '/nobody'))[0]], [500, 400]);
  });

  test(`${framework}: maxWait`, async (t) => {
    const redis = await startRedis(t);
    const limits = new Limits(await open(t, redis.url), { timeout: '10s' });
    const short = { permits: 1, window: '200ms' };
    const results = [];
    const wait = { maxWait: '1m', key: () => 'a', observe: (request, result) => results.push(result) };
    const both = () => [[limits.listLog('v', short), 'a'], [limits.listLog('w', short), 'a']];
    const log = limits.listLog('long', { permits: 1, window: '1m' });
    const url = await start(t, {
      '/log': [limits.listLog('log', short), wait],
      '/ring': [limits.sliceRing('ring', short), wait],
      '/both': [both, { ...wait, key: undefined }],
      '/late': [limits.listLog('late', { permits: 1, window: '1h' }), { ...wait, maxWait: '1s' }],
      '/held': [log, { ...wait, maxWait: '2h', maxDelayed: 1 }],
    });
    for (const path of ['/log', '/ring', '/both']) {
      results.length = 0;
      for (let i = 0; i < 3; i++) assert.equal((await get(url + path))[0], 200, path);
      const [first, second] = results.map(({ decisions: [{ now, wait }] }) => now + wait);
      assert.ok(second - first > 199.99, path); // in doubles
    }
    assert.deepEqual([(await get(`${url}/late`))[0], (await get(`${url}/late`))[0]], [200, 429]);

    await get(`${url}/held`);
    const held = net.connect(new URL(url).port, '127.0.0.1');
    held.write('GET /held HTTP/1.1\r\nHost: x\r\n\r\n');
    const bookings = async () => (await log.peek('a')).resetAfter > 60e3;
    await until('a booking', bookings);
    assert.equal((await get(`${url}/held`))[0], 429, 'one is held, and no more');
    held.destroy();
    await until('the booking goes back', async () => !(await bookings()));
  });
}

test('who has left before is not held', async () => {
  const sent = [];
  const reply = [1, 0, 60e6, 60e6, 1795190573204223]; // booked for the end of a minute
  const sendCommand = async ([, , , , ...args]) => (sent.push(args), sent.length > 1 ? [1] : reply);
  const limits = new Limits({ sendCommand });
  const response = Object.assign(new EventEmitter(), { destroyed: true });
  const limit = expressLimit(limits.listLog('x', { permits: 1, window: '1m' }), { key: () => 'a', maxWait: '2m' });
  await limit({}, response, assert.fail);
  await limits.flush();
  assert.deepEqual(sent.map((args) => args.length), [4, 2], 'a call, and a return');
});

test('several limits of one request, and seconds are rounded up', async () => {
  for (const [wait, seconds] of [[1, '1'], [1000000, '1'], [1000001, '2'], [59999999, '60']]) {
    const limits = new Limits({ sendCommand: async () => [0, 0, wait, 60000000, 1795190573204223] });
    const headers = {};
    const setHeader = (name, value) => (headers[name] = value);
    const response = { getHeader: (name) => headers[name], setHeader, end() {} };
    for (const [name, permits] of [['all', 10], ['one', 1]]) {
      await expressLimit(limits.listLog(name, { permits, window: '1m' }), { key: () => 'a' })({}, response);
    }
    assert.equal(headers['Retry-After'], seconds);
    assert.equal(headers.RateLimit, `"all";r=0;t=${seconds}, "one";r=0;t=${seconds}`);
    assert.equal(headers['RateLimit-Policy'], '"all";q=10;w=60, "one";q=1;w=60');
  }
});

// The subjects of the Go package httplimit.
const vectors = JSON.parse(readFileSync(new URL('../../../httplimit/testdata/subjects.json', import.meta.url)));

/** Returns the subject that a limiter is asked about; undefined if the request is refused, 500 if the server is. */
async function subjectFor(key, request) {
  let asked;
  const limiter = { name: 'x', allowN: (subject) => ((asked = subject), { granted: true, permits: 1, limit: {} }) };
  const response = { setHeader() {}, getHeader() {}, end() {} };
  await expressLimit(limiter, { key })(request, response, assert.ifError);
  if (response.statusCode === 500) return 500;
  assert.equal(response.statusCode, asked === undefined ? 400 : undefined);
  return asked;
}

test('subjects', async () => {
  for (const { values, subject } of vectors.subjects) {
    assert.equal(subjectOf(...values), subject);
    assert.equal(await subjectFor(() => values, {}), values.includes('') ? undefined : subject);
  }
  for (const { hex, subject } of vectors.headers) {
    const request = { headers: { 'x-key': Buffer.from(hex, 'hex').toString('latin1') } };
    assert.equal(await subjectFor(keyByHeader('X-Key'), request), subject, hex);
  }
  const never = new Limits({ sendCommand: () => assert.fail('sent') }).listLog('x', { permits: 1, window: '1m' });
  for (const value of [5, true, undefined, {}, [['a']], Promise.resolve('a')]) {
    assert.equal(await subjectFor(() => value, {}), undefined);
  }
  for (const text of vectors.surrogates) {
    assert.equal(await subjectFor(() => text, {}), undefined);
    assert.throws(() => subjectOf(text), { name: 'ArgumentError' });
    await assert.rejects(never.allow(text), { name: 'ArgumentError' });
  }
});

test('keyByIP', async () => {
  assert.ok(vectors.hops.length > 10);
  for (const vector of [...vectors.x_forwarded_for, ...vectors.hops]) {
    const { name, peer, trust, ipv6_prefix: ipv6Prefix, hops, lines, subject } = vector;
    const request = { headers: lines ? { 'x-forwarded-for': lines.join(', ') } : {} };
    request.socket = { remoteAddress: peer || undefined };
    const asked = await subjectFor(keyByIP({ trustedProxies: trust, ipv6Prefix, hops }), request);
    assert.equal(asked === 500 ? undefined : asked, subject, name);
  }
  for (const { text, subject, unix } of vectors.addresses) {
    const headersOf = (forwarded) => ({ 'x-forwarded-for': forwarded });
    const from = (remoteAddress, forwarded) => ({ headers: headersOf(forwarded), socket: { remoteAddress } });
    assert.equal(await subjectFor(keyByIP(), from(text)), subject ?? 500, `peer ${text}`);
    const behind = keyByIP({ trustedProxies: ['10.0.0.1'] });
    assert.equal(await subjectFor(behind, from('10.0.0.1', text)), subject, `header ${text}`);
    const local = keyByIP({ trustedProxies: ['unix'] });
    assert.equal(await subjectFor(local, from(text, '192.0.2.1')), unix ? '192.0.2.1' : subject ?? 500, `unix ${text}`);
  }
  const left = { headers: { 'x-forwarded-for': '192.0.2.1' }, socket: { destroyed: true } };
  assert.equal(await subjectFor(keyByIP({ trustedProxies: ['unix'] }), left), undefined, 'the caller has left');
  for (const proxy of ['10.0.0.0/33', 'example.org', '10.0.0.0/', '']) {
    assert.throws(() => keyByIP({ trustedProxies: [proxy] }), { name: 'ArgumentError' }, proxy);
  }
  assert.throws(() => keyByIP({ ipv6Prefix: 0 }), { name: 'ArgumentError' });
  assert.throws(() => keyByIP({ hops: -1 }), { name: 'ArgumentError' });
  assert.throws(() => keyByIP({ hops: 1, trustedProxies: ['unix'] }), { message: /hops or trustedProxies, not both/ });
});

test('a warning of those who trust everybody', async () => {
  const warned = [];
  const note = (warning) => warned.push(warning.message);
  process.on('warning', note);
  for (const proxy of ['10.0.0.0/8', '0.0.0.0/0', '::/0', '::ffff:0.0.0.0/96']) keyByIP({ trustedProxies: [proxy] });
  await new Promise(setImmediate);
  process.off('warning', note);
  const about = warned.filter((message) => message.startsWith('keyByIP: '));
  const why = 'who calls writes what they like: name the proxies';
  assert.deepEqual(about, [`keyByIP: trustedProxies has all addresses: ${why}`]);
});
