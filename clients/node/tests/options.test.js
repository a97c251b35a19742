// What is checked before anything is sent, and what is sent: digits.
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { inspect } from 'node:util';
import { Limits, SluiceError } from 'sluice-redis';
import * as sluice from 'sluice-redis';

const limits = new Limits({ sendCommand: async () => [1, 1, 0, 0, 0, 0] });

const one = { permits: 3, window: '1m' };
const limiter = limits.listLog('x', one);
const made = (options, client) => () => new Limits({ sendCommand() {}, ...client }, options);
const micros = 'in whole microseconds, as "1m" or in milliseconds';
const aWindow = `want 1ms to 366 days, ${micros}`;
const aName = 'want letters, digits, dot, underscore, dash and slash, at least one';
const aPrefix = 'want letters, digits, dot, underscore and dash, at least one';
const larger = 'want a whole number, 0 to 1000000; gcra and sliceRing hold more';

const wrong = [
  [() => new Limits(null), 'client: want a client of node-redis, ioredis or iovalkey, or one of their clusters'],
  [made({}, { options: { legacyMode: true } }), 'client: want one without legacyMode'],
  [made({}, { getSentinelNode() {} }), 'client: a sentinel client is not supported: ioredis is'],
  [made({ prefix: 'a:b' }), `prefix "a:b": ${aPrefix}`],
  [made({ timeout: 0 }), `Limits: timeout 0: want 1ms to 24h, ${micros}`],
  [made(null), 'Limits: options null: want an object'],
  [made({ preloaded: 1 }), 'Limits: preloaded 1: want true or false'],
  [
    made({ onFailure: 'fail' }),
    'Limits: onFailure "fail": want "error", "open", "deny" or { local: a share above 0, up to 1 }',
  ],
  [() => limits.listLog('send code', {}), `limiter "send code": ${aName}`],
  [() => sluice.redisKey('p', 'x', 'a', 's:'), `state "s:": ${aPrefix}`],
  [() => sluice.redisKey('p', 'x', 'a', 's', 'part'), 'x: parts "part": want an array of Unicode strings'],
  [() => sluice.redisKey('p', 'x', 'a', 's', [1]), 'x: parts [ 1 ]: want an array of Unicode strings'],
  [() => sluice.subjectOf('a', 5), "subjectOf: values [ 'a', 5 ]: want an array of Unicode strings"],
  [() => sluice.keyByIP({ trustedProxies: [5] }), 'keyByIP: trustedProxies [ 5 ]: want an array of Unicode strings'],
  [() => sluice.keyByHeader(5), 'keyByHeader: name [ 5 ]: want an array of Unicode strings'],
  [() => sluice.headersOf({}, {}), 'headersOf: limiter {}: want a limiter'],
  [() => sluice.headersOf({ name: 'x' }, {}), 'headersOf: decision {}: want a decision'],
  [() => sluice.expressLimit({}), 'middleware: limiter {}: want a limiter with allow(), or a function of the request'],
  [() => sluice.expressLimit(limiter, { cost: 2 }), 'middleware: cost 2: want a function of the request'],
  [() => sluice.fastifyLimit(limiter, { key: 'ip' }), 'middleware: key "ip": want a function of the request'],
  [() => sluice.expressLimit(limiter, { trust: [] }), 'middleware: trust is not an option of the middleware'],
  [() => sluice.keyByIP({ trusted: [] }), 'keyByIP: trusted is not an option of keyByIP'],
  [() => sluice.keyByIP({ trustedProxies: '::' }), 'keyByIP: trustedProxies "::": want an array of Unicode strings'],
];

/** Options of a limiter x. */
const wrongOptions = [
  ['listLog', { permit: 3 }, 'permit is not an option of listLog'],
  ['listLog', { permits: 3 }, `window undefined: ${aWindow}`],
  ['listLog', { permits: 3, window: '10us' }, `window "10us": ${aWindow}`],
  ['listLog', { permits: 3, window: 1.0005 }, `window 1.0005: ${aWindow}`],
  ['listLog', { ...one, permits: '3' }, `permits "3": ${larger}`],
  ['listLog', { ...one, permits: 2e6 }, `permits 2000000: ${larger}`],
  ['gcra', { permits: 1, window: '366d', burst: 143 }, 'burst 143: want up to 142 with 1 permits in 8784h'],
  ['tokenBucket', { ...one, perClient: 'no' }, 'perClient "no": want true or false'],
  ['sliceRing', { windows: [] }, 'number of windows 0: want a whole number, 1 to 8'],
  ['sliceRing', { windows: [one, one] }, 'windows "1m": want each window once'],
  ['sliceRing', { windows: [null] }, 'options null: want an object'],
  ['sliceRing', { windows: [{ permit: 1 }] }, 'permit is not an option of windows'],
  ['sliceRing', { windows: [one], permits: 5 }, 'permits 5: want windows alone, or permits and window'],
  [
    'sliceRing', { permits: 1, window: '1h', slice: '1ms' },
    'window "1h": want up to 999ms: 999 slices of 1ms; more takes longer slices',
  ],
  ['budget', { ...one, settleWithin: '0s' }, `settleWithin "0s": ${aWindow}`],
  ['budget', { windows: [one], window: '1h' }, 'window "1h": want windows alone, or permits and window'],
  ['concurrency', { slots: 10001, ttl: '1s' }, 'slots 10001: want a whole number, 0 to 10000'],
  [
    'concurrency', { slots: 1, ttl: '1s', onFailure: { local: 1 } },
    'onFailure { local: 1 }: want "error", "open" or "deny"',
  ],
];

test('what is wrong is said when the limiter is made', () => {
  const ofLimiters = wrongOptions.map(([kind, options, text]) => [() => limits[kind]('x', options), `x: ${text}`]);
  for (const [make, text] of [...wrong, ...ofLimiters]) {
    assert.throws(make, { name: 'ArgumentError', message: `sluice: ${text}` });
  }
  sluice.redisKey('p', 'x', 'x'.repeat(65536), 's');
});

test('no error shows a client', async () => {
  class Redis {
    password = 's3cret';
    options = { password: 's3cret' };
  }
  const client = new Redis();
  const wrongs = [
    () => new Limits(client),
    () => new Limits('redis://:s3cret@host'),
    made(client),
    made({ prefix: client }),
    made({ onFailure: client }),
    () => limits.listLog(client, one),
    () => limits.listLog('x', { permits: client, window: '1m' }),
    () => limits.listLog('x', { permits: 1, window: client }),
    () => sluice.expressLimit(client),
    () => sluice.headersOf(client, {}),
    () => limiter.allow(client),
    () => limiter.giveBack('a', client),
    () => limits.all(client),
    () => limits.all([[client, 'a']]),
  ];
  for (const wrong of wrongs) {
    await assert.rejects(async () => wrong(), (error) => !inspect(error, { depth: 9 }).includes('s3cret'), `${wrong}`);
  }
  assert.throws(() => sluice.expressLimit(limits.concurrency('x', { slots: 1, ttl: '1s' })), {
    message: 'sluice: middleware: limiter Concurrency: want a limiter with allow(), or a function of the request',
  });
});

test('a wrong call is an ArgumentError, and nothing is sent', async () => {
  const never = new Limits({ sendCommand: () => assert.fail('sent') });
  const log = never.listLog('x', one);
  const ids = never.zsetLog('x', one);
  const bucket = never.tokenBucket('x', one);
  const budget = never.budget('x', one);
  const slots = never.concurrency('x', { slots: 1, ttl: '1s' });
  const booked = await limits.listLog('x', one).reserve('a');
  const options = 'x: options null: want an object';
  const decision = 'x: decision { .. }: want a decision of this limiter';
  for (const [call, text, name = 'ArgumentError'] of [
    [() => log.allow('a', null), options],
    [() => log.allow('a', 5), 'x: options 5: want an object'],
    [() => log.allow('a', { id: 'b' }), 'x: id is not an option of listLog.allowN'],
    [() => log.allow('a', { signal: {} }), 'x: signal {}: want an AbortSignal'],
    [() => log.allow(''), 'x: subject "": want a Unicode string of 1 to 65536 bytes'],
    [() => log.allow(`${'ë'.repeat(32768)}x`), 'x: subject of 65537 bytes: want a Unicode string of 1 to 65536 bytes'],
    [() => log.allowN('a', '1'), 'x: n "1": want a whole number, 1 or more'],
    [() => log.allowN('a', 1.5), 'x: n 1.5: want a whole number, 1 or more'],
    [() => log.allowN('a', 4), 'x: allowN(4) exceeds limit 3', 'ExceedsLimitError'],
    [() => log.peek('a', { n: 1 }), 'x: n is not an option of listLog.peek'],
    [() => log.reset('a', null), options],
    [() => log.reset(), 'x: subject undefined: want a Unicode string of 1 to 65536 bytes'],
    [() => log.wait('a', { maxwait: 5 }), 'x: maxwait is not an option of listLog.wait'],
    [() => log.wait('a', { n: 0 }), 'x: n 0: want a whole number, 1 or more'],
    [() => log.reserve('a', null), options],
    [() => log.giveBack('a'), 'x: decision undefined: want a decision of this limiter'],
    [() => log.giveBack('a', { ...booked.decision, now: '' }), decision],
    [() => log.giveBack('a', { ...booked.decision, rings: [5] }), decision],
    [() => log.giveBack('a', booked.decision, 1, 5), 'x: options 5: want an object'],
    [() => booked.wait(null), options],
    [() => booked.wait({ signal: 1 }), 'x: signal 1: want an AbortSignal'],
    [() => ids.allow('a', { id: 'a|b' }), 'x: id "a|b": want a string of 1 to 128 bytes without |'],
    [() => ids.allow('a', { id: '\ud800' }), String.raw`x: id "\ud800": want a string of 1 to 128 bytes without |`],
    [() => ids.wait('a', { maxWait: '367d' }), `x: maxWait "367d": want 0us to 366 days, ${micros}`],
    [() => budget.reserve('a', '', 1), 'x: id "": want a string of 1 to 128 bytes'],
    [() => ids.peek('a', { id: 'b' }), 'x: id is not an option of zsetLog.peek'],
    [() => bucket.setRate('a'), 'x: options undefined: want an object'],
    [() => bucket.setRate('a', { ...one, burst: 5 }), 'x: burst is not an option of tokenBucket.setRate'],
    [() => bucket.setRate('a', one, { n: 1 }), 'x: n is not an option of tokenBucket.setRate'],
    [() => budget.reserve('a', 'id', 1, { n: 1 }), 'x: n is not an option of budget.reserve'],
    [() => budget.settle('a', 'id', 1, null), options],
    [() => budget.charge('a', 'id', 1, null), options],
    [() => budget.peek('a', { id: 'b' }), 'x: id is not an option of budget.peek'],
    [() => slots.tryAcquire('a', null), options],
    [() => slots.acquire('a', { maxwait: 5 }), 'x: maxwait is not an option of concurrency.acquire'],
    [() => slots.acquire(5), 'x: subject 5: want a Unicode string of 1 to 65536 bytes'],
  ]) {
    const outcome = await Promise.resolve().then(call).catch((error) => error);
    const where = `${text}: ${outcome}`;
    assert.equal(outcome?.name, name, where);
    assert.equal(outcome.message.replace(/\{ .* \}/, '{ .. }'), `sluice: ${text}`);
    assert.ok(outcome.argument && 'value' in outcome && outcome.want, where);
  }
});

test('durations', async () => {
  const sent = [];
  const client = { sendCommand: async (words) => (sent.push(words), [1, 1, 0, 0, 0, 0]) };
  const cases = [
    ['1m', '60000000'], [60000, '60000000'], ['1h30m', '5400000000'], ['1.5s', '1500000'], ['1.1ms', '1100'],
    [1.001, '1001'], ['366d', '31622400000000'], [4.35, '4350'], ['1ms1us', '1001'], [8.7, '8700'],
  ];
  for (const [window] of cases) await new Limits(client).listLog('x', { permits: 1e6, window }).allow('a');
  assert.deepEqual(
    sent.map((words) => words[5]),
    cases.map(([, micros]) => micros),
  );
  assert.ok(sent.flat().every((word) => typeof word === 'string'));
  assert.equal(sent[0][4], '1000000');
  for (const window of ['1', '1 m', 'm', '', '1m ', '-1m', '1e3ms', NaN, Infinity, '0.1us', -1, 1n, null]) {
    const make = () => new Limits(client).listLog('x', { permits: 1, window });
    assert.throws(make, { name: 'ArgumentError' }, String(window));
  }
});

test('a limit of 0 denies without asking', async () => {
  const never = new Limits({ sendCommand: () => assert.fail('sent') });
  const limiters = [
    never.listLog('x', { permits: 0, window: '1m' }),
    never.gcra('x', { permits: 0, window: '1m' }),
    never.sliceRing('x', { windows: [{ permits: 5, window: '1m' }, { permits: 0, window: '1h' }] }),
  ];
  for (const limiter of limiters) {
    const { granted, wait, retryAfterSeconds } = await limiter.allow('a');
    assert.deepEqual([granted, wait, retryAfterSeconds], [false, Infinity, 31622400]);
    await assert.rejects(limiter.wait('a'), {
      name: 'WaitError',
      message: 'sluice: x: wait would never end: the limit is 0',
    });
  }
  const { slot, decision } = await never.concurrency('x', { slots: 0, ttl: '1s' }).tryAcquire('a');
  assert.deepEqual([slot, decision.wait], [null, Infinity]);
});

test('a peek that finds a free permit has nothing to wait for', async () => {
  const { granted, remaining, retryAfterSeconds } = await answering([0, 3, 0, 0, 0]).peek('a');
  assert.deepEqual([granted, remaining, retryAfterSeconds], [false, 3, 0]);
  assert.equal((await answering([0, 0, 2500000, 0, 0]).peek('a')).retryAfterSeconds, 3);
});

test('a WaitError says what maxWait was, in whole milliseconds', async () => {
  await assert.rejects(answering([0, 0, 59990123, 0, 0]).wait('a', { maxWait: '1s' }), {
    message: 'sluice: x: wait of 59990 ms would exceed maxWait 1000 ms',
    wait: 59990.123,
    maxWait: 1000,
  });
  const full = new Limits({ sendCommand: async () => [0, 0, 1000, 0, 0] }).concurrency('x', { slots: 1, ttl: '1s' });
  await assert.rejects(full.acquire('a', { maxWait: 20 }), { name: 'WaitError', maxWait: 20 });
  const silent = new Limits({ sendCommand: () => new Promise(() => {}) }).listLog('x', one);
  await assert.rejects(silent.wait('a', { maxWait: 100 }), { message: /: no answer within \d+ ms$/ });
});

/** Returns a limiter whose Redis answers so. */
const answering = (reply) => new Limits({ sendCommand: async () => reply }).listLog('x', one);

test('a decision is frozen, and now is exact', async () => {
  const client = { sendCommand: async () => [1, 2, 0, 60000000, 1795190573204223] };
  const decision = await new Limits(client).listLog('x', one).allow('a');
  assert.ok(Object.isFrozen(decision) && Object.isFrozen(decision.limit));
  assert.equal(Math.round(decision.now * 1e3), 1795190573204223);
  const log = new Limits(client).listLog('x', one);
  for (let i = 0; i < 2000; i++) {
    const [now, wait] = [1795190573204223 + i * 333667, i * 29999];
    client.sendCommand = async () => [1, 2, wait, 60000000, now];
    const booked = await log.allow('a');
    client.sendCommand = async (words) => [Number(words[4] === String(now + wait))];
    assert.equal(await log.giveBack('a', booked), 1, `${now} + ${wait}`);
  }
});

test('errors have a name and a base', () => {
  const kinds = Object.entries(sluice).filter(([name]) => name.endsWith('Error'));
  assert.equal(kinds.length, 10);
  for (const [name, Kind] of kinds) {
    const error = new Kind('text', { cause: 'why' });
    assert.deepEqual([error.name, error instanceof SluiceError, error.cause], [name, true, 'why']);
  }
});

class ErrorReply extends Error {} // as in node-redis

const inScript = 'ERR Error running script (call to f_d44f): @user_script:1: @user_script: 1: '; // of Redis 5 and 6
const nonDeterministic = 'Write commands not allowed after non deterministic commands.';
const cluster = (why) => new Error(`Too many Cluster redirections${why}`);
const closed = cluster('. Last error: Error: Connection is closed.');
const loading = (times) => Array(times).fill('LOADING ..');

/** The limiter, with what its client fails before it answers (a text is an error reply), and what comes of it. */
const failures = [
  ...['LOADING', 'TRYAGAIN', 'CLUSTERDOWN', 'BUSY', 'ERR max number of clients reached', `${inScript}-READONLY x`]
    .map((text) => ['listLog', [`${text} ..`], 'granted', 2]),
  ['listLog', loading(4), 'UnavailableError', 4],
  ['listLog', ['NOSCRIPT ..'], 'granted', 3],
  ['listLog', ['NOSCRIPT', 'NOPERM'], 'NotLoadedError', 2],
  ['listLog', ['NOPERM ..'], 'UnavailableError', 1],
  ['listLog', [inScript + nonDeterministic], 'UnavailableError', 1],
  ['listLog', ['ERR .. @user_script: 5 ..'], 'OutcomeUnknownError', 1],
  ['listLog', [Object.assign(new Error('connect ECONNREFUSED'), { syscall: 'connect' })], 'granted', 2],
  ['listLog', [cluster('')], 'granted', 2],
  ['listLog', [cluster('. Last error: ReplyError: MOVED 1 127.0.0.1:1')], 'granted', 2],
  ['listLog', [closed], 'OutcomeUnknownError', 1],
  ['zsetLog', [closed], 'granted', 2],
  ['zsetLog', [closed, ...loading(1)], 'granted', 3],
  ['zsetLog', [closed, ...loading(3)], 'OutcomeUnknownError', 4],
];

test('what is asked again, and what is not', async () => {
  assert.ok(sluice.NotLoadedError.prototype instanceof sluice.UnavailableError);
  for (const [kind, fails, outcome, commands] of failures) {
    let sent = 0;
    const sendCommand = async () => {
      const failure = fails[sent++];
      if (failure) throw typeof failure === 'string' ? new ErrorReply(failure) : failure;
      return [1, 1, 0, 0, 0];
    };
    const limiter = new Limits({ sendCommand }, { timeout: '20s' })[kind]('x', one);
    const { granted, name } = await limiter.allow('a').catch((error) => error);
    assert.deepEqual([granted ? 'granted' : name, sent], [outcome, commands], `${kind}: ${fails}`);
  }
});

test('the timeout does not count while the server answers what was sent earlier', async () => {
  let last = Promise.resolve();
  const client = { sendCommand: () => (last = last.then(() => pause(30)).then(() => [1, 1, 0, 0, 0])) };
  const log = new Limits(client, { timeout: 100, onFailure: 'deny' }).listLog('x', one);
  const decisions = await Promise.all(Array.from({ length: 20 }, () => log.allow('a')));
  assert.ok(decisions.every((decision) => decision.granted));
});

test('the timeout hardly counts while the process is busy', async () => {
  const busy = async () => {
    for (const end = performance.now() + 300; performance.now() < end; await new Promise(setImmediate)) {
      for (const turn = performance.now() + 5; performance.now() < turn; );
    }
    return [1, 1, 0, 0, 0];
  };
  const log = new Limits({ sendCommand: busy }, { timeout: 100 }).listLog('x', one);
  assert.equal((await log.allow('a')).granted, true);
});

test('maxWait bounds calls while Redis is silent, and the error is no WaitError', async () => {
  const silent = new Limits({ sendCommand: () => new Promise(() => {}) }, { timeout: '3s' });
  const render = silent.concurrency('x', { slots: 1, ttl: '1s', maxWait: 200 });
  const started = performance.now();
  const waits = silent.listLog('x', one).wait('a', { maxWait: 200 });
  const calls = [waits, render.acquire('a'), render.acquire('a'), render.acquire('b', { maxWait: 100 })];
  const names = (await Promise.allSettled(calls)).map(({ reason }) => reason?.name);
  assert.ok(performance.now() - started < 2000, `${performance.now() - started} ms`);
  const unknown = 'OutcomeUnknownError';
  assert.deepEqual(names, [unknown, unknown, 'UnavailableError', unknown]);
});

test('acquire with a policy: when one question has failed, the others are asked side by side', async () => {
  const silent = new Limits({ sendCommand: () => new Promise(() => {}) }, { timeout: 100, onFailure: 'open' });
  const render = silent.concurrency('x', { slots: 1, ttl: '1s' });
  const started = performance.now();
  const slots = await Promise.all(Array.from({ length: 50 }, () => render.acquire('a')));
  assert.ok(slots.every(({ decision }) => decision.degraded));
  assert.ok(performance.now() - started < 2000, `${performance.now() - started} ms`);
});

test('acquire asks again after a lost reply, with the same id, and releases nothing', async () => {
  const sent = [];
  const sendCommand = (words) => (sent.push(words.join(' ')) === 1 ? new Promise(() => {}) : [1, 0, 0, 60000000, 0]);
  const limits = new Limits({ sendCommand: async (words) => sendCommand(words) }, { timeout: 100 });
  const render = limits.concurrency('x', { slots: 1, ttl: '1m' });
  assert.equal((await render.acquire('a', { maxWait: '10s' })).decision.granted, true);
  await pause(50);
  assert.equal(sent.length, 2);
  assert.equal(sent[0], sent[1]);
});

test('onFailure { local } limits in this process to a share', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const make = (share) => new Limits({ sendCommand: async () => Promise.reject(new ErrorReply('MISCONF no')) }, {
    onFailure: { local: share },
  });
  const half = make(0.5);
  const log = half.listLog('x', { permits: 10, window: '1s' });
  const granted = [];
  for (let i = 0; i < 6; i++) granted.push((await log.allow('a')).granted);
  assert.deepEqual(granted, [true, true, true, true, true, false]);
  const { degraded, remaining, wait, resetAfter, retryAfterSeconds, cause } = await log.allow('a');
  assert.deepEqual([degraded, remaining, wait, resetAfter, retryAfterSeconds], [true, 0, 200, 1000, 1]);
  assert.equal(cause.name, 'UnavailableError');
  await assert.rejects(log.allowN('b', 6), { name: 'UnavailableError' }); // above the share
  now = 199;
  assert.equal((await log.allow('a')).granted, false);
  now = 200;
  assert.equal((await log.allow('a')).granted, true);
  assert.equal((await log.reserve('a', { maxWait: 199 })).ok, false);
  assert.equal((await log.reserve('a', { maxWait: 200 })).delay, 200);
  assert.equal((await log.peek('a')).wait, 400);
  const more = half.listLog('x', { permits: 20, window: '1s' }); // keeps the tokens, and refills faster
  now = 600;
  assert.deepEqual([(await more.peek('a')).remaining, (await more.peek('other')).remaining], [1, 10]);
  const bucket = half.gcra('x', { permits: 1, window: '1s', burst: 8 });
  assert.deepEqual([(await bucket.allowN('a', 4)).granted, (await bucket.allow('a')).wait], [true, 2000]);
  const windows = [{ permits: 4, window: '1s' }, { permits: 6, window: '1m' }];
  const ring = await half.sliceRing('x', { windows }).allowN('a', 2);
  assert.deepEqual(ring.windows.map((window) => [window.remaining, window.resetAfter]), [[0, 1000], [1, 40000]]);
  for (let i = 0; i <= 10000; i++) await log.peek(`subject-${i}`);
  assert.equal((await log.allow('a')).remaining, 4, 'the oldest of more than 10000 subjects starts anew');
  for (const share of [0, 1.1, '1', NaN]) assert.throws(() => make(share), { name: 'ArgumentError' });
  assert.throws(() => half.concurrency('x', { slots: 1, ttl: '1s' }), { name: 'ArgumentError' });
});

test('many calls with one signal: no warning, and no listener is left', async () => {
  const warnings = [];
  const note = (warning) => warnings.push(warning.name);
  process.on('warning', note);
  const client = { sendCommand: async () => (await pause(20), [0, 0, 60000000, 0, 0]) };
  const limits = new Limits(client);
  const log = limits.listLog('x', { permits: 1, window: '1m' });
  const render = limits.concurrency('x', { slots: 1, ttl: '1m' });
  const [signal, left] = [new AbortController().signal, new AbortController()];
  await Promise.all(Array.from({ length: 20 }, () => log.allow('a', { signal })));
  assert.equal(getEventListeners(signal, 'abort').length, 0);
  const sleeping = Array.from({ length: 20 }, (_, i) => (i % 2 ? log.wait('a', left) : render.acquire('a', left)));
  await pause(100);
  left.abort(new Error('left'));
  for (const { reason } of await Promise.allSettled(sleeping)) assert.match(String(reason), /left$/);
  await pause(0);
  process.off('warning', note);
  assert.deepEqual(warnings, []);
});

test('a decision without Redis is told, once a minute', async (t) => {
  const warnings = [];
  const note = ({ name, message }) => warnings.push([name, message]);
  process.on('warning', note);
  t.after(() => process.off('warning', note));
  const down = new Limits({ sendCommand: async () => Promise.reject(new ErrorReply('MISCONF no')) });
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  for (let i = 0; i < 5; i++) await down.listLog('told', { ...one, onFailure: 'open' }).allow('ada');
  await down.concurrency('slots', { slots: 1, ttl: '1s', onFailure: 'deny' }).tryAcquire('ada');
  now = 60_000;
  await down.listLog('told', { ...one, onFailure: 'open' }).peek('ada');
  const response = { setHeader() {}, getHeader() {}, end() {} };
  await sluice.expressLimit(down.listLog('http', one), { key: () => 'ada' })({}, response);
  down.caller.connection.client.sendCommand = async () => Promise.reject(new ErrorReply('WRONGTYPE of a key'));
  await sluice.expressLimit(down.listLog('state', one), { key: () => 'ada' })({}, response);
  await new Promise(setImmediate);
  assert.deepEqual(warnings, [
    ['SluiceWarning', 'told: Redis did not decide, onFailure is "open": list_log_v1: MISCONF no'],
    ['SluiceWarning', 'slots: Redis did not decide, onFailure is "deny": concurrency_v1: MISCONF no'],
    ['SluiceWarning', 'told: Redis did not decide, onFailure is "open": list_log_v1: MISCONF no (and 4 more)'],
    ['SluiceWarning', 'http: Redis did not decide, the answer was status 503: list_log_v1: MISCONF no'],
    ['SluiceWarning', 'state: Redis did not decide, the answer was status 503: list_log_v1: WRONGTYPE'],
  ]);
});

test('the timeout does not count while the process is stopped', async (t) => {
  let idle = 0;
  t.mock.method(performance, 'eventLoopUtilization', () => ({ idle: (idle += 3600e3) })); // an hour at each look
  const client = { sendCommand: async () => (await pause(30), [1, 1, 0, 0, 0]) };
  const log = new Limits(client, { timeout: 200 }).listLog('x', one);
  assert.equal((await log.allow('a')).granted, true);
});

test('nothing is kept of the nodes that have left a cluster', async (t) => {
  let now = 100e3;
  t.mock.method(performance, 'now', () => now);
  const node = { address: '' };
  const cluster = { nodeClient() {}, isOpen: true, slots: new Array(16384).fill({ master: node }) };
  const limits = new Limits({ ...cluster, sendCommand: async () => [1, 1, 0, 0, 0] });
  for (node.address of ['left:1', 'here:1']) await limits.listLog('x', one).allow('a');
  assert.deepEqual([...limits.caller.breakers.nodes.keys()], ['here:1']);
});
