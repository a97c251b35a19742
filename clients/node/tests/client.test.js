// What each client does when a reply is lost, when the server stands still or forgets its scripts; one server.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Limits } from 'sluice-redis';
import { client, isIORedis, open } from './clients.js';
import { report, startProxy, startRedis, succeeds, until } from './servers.js';

const perMinute = { permits: 100, window: '1m' };
const perHour = { permits: 100, window: '1h' };
const patient = { timeout: '10s' }; // of tests that are not about time: other programs may keep the machine busy

/** Runs a call whose reply the proxy loses, after one that has loaded the script. */
async function loseReply(proxy, call) {
  await call();
  proxy.lose('EVALSHA');
  const outcome = await call().catch((error) => error);
  assert.equal(proxy.lost, 1);
  return outcome;
}

test('a lost reply: charged once, and the error says so', async (t) => {
  const redis = await startRedis(t);
  const looker = new Limits(await open(t, redis.url), patient);
  for (const kind of ['listLog', 'gcra', 'tokenBucket', 'sliceRing']) {
    const proxy = await startProxy(t, redis.port);
    const limiter = new Limits(await open(t, proxy.url), patient)[kind]('lost', perHour);
    const error = await loseReply(proxy, () => limiter.allow('ada'));
    assert.equal(error.name, 'OutcomeUnknownError');
    assert.doesNotMatch(error.message, /no answer within/, 'it is known when the connection is lost');
    await until('the connection is back', () => succeeds(limiter.peek('ada')));
    assert.equal((await looker[kind]('lost', perHour).peek('ada')).remaining, 98, kind);
  }
  report('trap', 'lost reply');
});

test('a lost reply of what counts once is asked for again', async (t) => {
  const redis = await startRedis(t);
  const proxy = await startProxy(t, redis.port);
  const limits = new Limits(await open(t, proxy.url), patient);
  const log = limits.zsetLog('lost', perMinute);
  assert.equal((await loseReply(proxy, () => log.allow('ada'))).granted, true);
  assert.equal((await log.peek('ada')).remaining, 98);

  const budget = limits.budget('lost', { windows: [perMinute] });
  let id = 0;
  proxy.lost = 0;
  assert.equal((await loseReply(proxy, () => budget.reserve('ada', `id-${id++}`, 10))).granted, true);
  assert.equal((await budget.peek('ada')).remaining, 80);
  proxy.lose('EVALSHA');
  await budget.settle('ada', 'id-0', 3);
  await budget.settle('ada', 'id-0', 9); // the first one counts
  assert.equal((await budget.peek('ada')).remaining, 87);
  await assert.rejects(budget.settle('ada', 'id-9', 3), { name: 'NotReservedError', id: 'id-9' });
  await budget.charge('ada', 'id-9', 3);
  assert.equal((await budget.peek('ada')).remaining, 84);
});

test('a server that answers nobody is left alone until it is back', async (t) => {
  const redis = await startRedis(t);
  const asked = async (options) => {
    const limits = new Limits(await open(t, redis.url), { timeout: '200ms', onFailure: 'open', ...options });
    const limiter = limits.gcra('outage', perHour);
    await until('it decides', async () => !(await limiter.allow('ada')).degraded);
    redis.child.kill('SIGSTOP');
    let sent = 0;
    try {
      for (let i = 0; i < 12; i++) sent += /breaker is open/.test((await limiter.allow('ada')).cause) ? 0 : 1;
    } finally {
      redis.child.kill('SIGCONT');
    }
    await until('it decides again', async () => !(await limiter.allow('ada')).degraded);
    return sent;
  };
  assert.equal(await asked({ breaker: { failures: 3, pause: '1s' } }), 3);
  assert.equal(await asked({ breaker: false }), 12);
  assert.throws(() => new Limits({}, { breaker: { failures: 0 } }), { name: 'ArgumentError' });
});

test('a client that sends a command again is refused, and does so', { skip: !isIORedis }, async (t) => {
  const redis = await startRedis(t);
  const proxy = await startProxy(t, redis.port);
  const resending = await open(t, proxy.url, client.resending);
  assert.throws(() => new Limits(resending), {
    name: 'ArgumentError',
    message: /autoResendUnfulfilledCommands: false/,
  });
  const sha1 = redis.cli('SCRIPT', 'LOAD', "return redis.call('INCR', KEYS[1])");
  const count = () => resending.call('EVALSHA', sha1, 1, 'x');
  await count();
  proxy.lose('EVALSHA');
  assert.equal(await count(), 3); // for 2 calls
  report('trap', 'resends by default: refused');
  const prefixed = await open(t, redis.url, { keyPrefix: 'app:' });
  assert.throws(() => new Limits(prefixed), { name: 'ArgumentError', message: /keyPrefix/ });
});

test('a server that stands still: an error in time, or the policy', async (t) => {
  const redis = await startRedis(t);
  const connected = await open(t, redis.url);
  await new Limits(connected, patient).listLog('frozen', perMinute).allow('ada');
  const limits = new Limits(connected, { timeout: 300 });
  const limiter = limits.listLog('frozen', perMinute);
  redis.child.kill('SIGSTOP');
  const started = performance.now();
  const leaving = new AbortController();
  setTimeout(() => leaving.abort(new Error('the user left')), 50);
  const error = await limiter.allow('ada', { signal: leaving.signal }).catch((reason) => reason);
  assert.deepEqual([error.name, error.cause.message], ['OutcomeUnknownError', 'the user left']);
  await assert.rejects(limiter.allow('ada'), { name: 'OutcomeUnknownError' });
  await assert.rejects(limiter.peek('ada'), { name: 'UnavailableError' });
  const open_ = await limits.listLog('frozen', { ...perMinute, onFailure: 'open' }).allow('ada');
  assert.deepEqual([open_.granted, open_.degraded, open_.cause.name], [true, true, 'OutcomeUnknownError']);
  const denied = await limits.listLog('frozen', { ...perMinute, onFailure: 'deny' }).allow('ada');
  assert.deepEqual([denied.granted, denied.degraded, denied.retryAfterSeconds], [false, true, 1]);
  const left = { signal: AbortSignal.timeout(20) };
  await assert.rejects(limits.listLog('frozen', { ...perMinute, onFailure: 'open' }).allow('ada', left));
  assert.ok(performance.now() - started < 10000);
  redis.child.kill('SIGCONT');
  await until('the server answers', () => succeeds(limiter.peek('ada')));
  report('trap', 'frozen server');
});

test('a connection without replies: calls go over a duplicate, until a reply comes', async (t) => {
  const redis = await startRedis(t);
  const proxy = await startProxy(t, redis.port);
  const connected = await open(t, proxy.url);
  const limits = new Limits(connected, { timeout: 300 });
  const ask = () => limits.listLog('held', perHour).allow('ada').then(() => 'granted', ({ name }) => name);
  const [own] = (await ask(), proxy.pipes);
  proxy.hold();
  assert.equal(await ask(), 'OutcomeUnknownError');
  proxy.release();
  assert.equal(await ask(), 'granted');
  assert.equal(proxy.pipes.size, 1, 'one slow reply changes nothing');
  for (let round = 0; round < 2; round++) {
    proxy.hold();
    const outcomes = [];
    for (let i = 0; i < 8; i++) outcomes.push(await ask());
    assert.deepEqual(outcomes.slice(4), ['granted', 'granted', 'granted', 'granted'], String(outcomes));
    assert.ok(proxy.pipes.size === 2 && proxy.pipes.has(own));
    if (round === 1) break;
    proxy.release();
    await until('the duplicate is closed', () => proxy.pipes.size === 1);
    assert.equal(await ask(), 'granted');
    assert.ok(proxy.pipes.has(own), "the user's own client stays connected");
  }
  await client.close(connected);
  await until('the duplicate is closed with the client', () => proxy.pipes.size === 0);
  report('trap', 'silent connection');
});

test('a burst is no outage: Redis decides each call', async (t) => {
  const redis = await startRedis(t);
  const impatient = { commandOptions: { timeout: 20 } }; // of node-redis, from version 5 on 5 s by default
  const connected = await open(t, redis.url, isIORedis ? {} : impatient);
  const limits = new Limits(connected, { timeout: 400, onFailure: 'open' });
  const burst = async (name, calls) => {
    const log = limits.listLog(name, { permits: 10, window: '1h' });
    const decisions = await Promise.all(Array.from({ length: calls }, () => log.allow('ada')));
    return decisions.filter((decision) => decision.granted).length;
  };
  for (const calls of [100, 2000, 20000]) assert.equal(await burst(`burst-${calls}`, calls), 10, calls);
  redis.cli('SCRIPT', 'FLUSH');
  assert.equal(await burst('noscript', 2000), 10);
  const other = () => (isIORedis ? connected.call('GET', 'x') : connected.sendCommand(['GET', 'x']));
  const others = Promise.allSettled(Array.from({ length: 20000 }, other));
  assert.equal(await burst('behind', 100), 10, 'behind commands of others');
  await others;
  report('trap', 'bursts');
});

test('a server that stands still while the process is busy: the call ends', async (t) => {
  const redis = await startRedis(t);
  const limits = new Limits(await open(t, redis.url), { timeout: 50 });
  await limits.listLog('busy', perMinute).allow('ada').catch(() => {});
  redis.child.kill('SIGSTOP');
  let busy = true;
  t.after(() => (busy = false));
  const work = () => {
    for (const end = performance.now() + 20; performance.now() < end; );
    if (busy) setImmediate(work);
  };
  work();
  await assert.rejects(limits.listLog('busy', perMinute).allow('ada'), { name: 'OutcomeUnknownError' });
});

test('what is aborted before it is written is not sent', async (t) => {
  const redis = await startRedis(t);
  const log = new Limits(await open(t, redis.url), patient).listLog('left', perMinute);
  await log.allow('ada');
  for (let calls = 0; calls < 5; calls++) {
    await pause(calls * 10); // the connection is idle, or not
    const leaving = new AbortController();
    const call = log.allow('ada', { signal: leaving.signal });
    leaving.abort(new Error('left at once'));
    await assert.rejects(call, /^Error: left at once$/);
  }
  assert.equal((await log.peek('ada')).remaining, 99);
});

test('a client that is not open: the error says what to do', async (t) => {
  const redis = await startRedis(t);
  const connected = await open(t, redis.url);
  const message = /list_log_v1: the client is not open: connect\(\) it first$/;
  const ask = (one) => new Limits(one, patient).listLog('x', perMinute).allow('ada');
  if (!isIORedis) await assert.rejects(ask(connected.duplicate()), { name: 'UnavailableError', message });
  await ask(connected);
  await client.close(connected);
  await until('it is closed', () => !isIORedis || connected.status === 'end');
  await assert.rejects(ask(connected), { name: 'UnavailableError', message });
});

test('a server that is gone: nothing was charged', async (t) => {
  const redis = await startRedis(t);
  const connected = await open(t, redis.url);
  await new Limits(connected, patient).listLog('gone', perMinute).allow('ada');
  const limits = new Limits(connected, { timeout: 300 });
  const limiter = limits.listLog('gone', perMinute);
  redis.child.kill('SIGKILL');
  await until('the client has noticed', async () => {
    const error = await limiter.allow('ada').catch((reason) => reason);
    return error.name === 'UnavailableError' && /not ready in time: .*ECONNREFUSED/.test(error.message);
  });
  await assert.rejects(limits.listLog('gone', perMinute).wait('ada', { maxWait: 200 }), { name: 'UnavailableError' });
  await assert.rejects(limiter.allow('ada', { signal: AbortSignal.abort(new Error('left before')) }), /left before/);
});

test('NOSCRIPT is cured by each call for itself', async (t) => {
  const redis = await startRedis(t);
  const proxy = await startProxy(t, redis.port);
  const limits = new Limits(await open(t, proxy.url, isIORedis ? { enableAutoPipelining: true } : {}), patient);
  const log = limits.listLog('flush', perMinute);
  const bucket = limits.gcra('flush', { permits: 100, window: '1m', burst: 50 });
  await log.allow('ada');
  redis.cli('SCRIPT', 'FLUSH');
  const inOneWrite = Array.from({ length: 20 }, (_, i) => (i % 2 ? log : bucket).allow('ada'));
  const decisions = await Promise.all(inOneWrite);
  assert.ok(decisions.every((decision) => decision.granted));
  assert.equal((await log.peek('ada')).remaining, 89);
  const words = proxy.commands.join('').toUpperCase();
  assert.ok(!/\$4\r\nEVAL\r\n/.test(words), 'EVAL was sent');
  const loads = words.split('\r\nSCRIPT\r\n').length - 1;
  // One before the flush, and one a script for all that wait for it: a reply may come when that has ended.
  assert.ok(loads >= 3 && loads < 8, `${loads} loads for 21 calls of two scripts`);
  report('trap', 'NOSCRIPT');
});

test('preloaded, as the user of sluice acl', async (t) => {
  const redis = await startRedis(t);
  const admin = await open(t, redis.url);
  const loader = new Limits(admin, patient);
  const rights = useRights.replace(/#\S+/, '>secret').split(' ').slice(2);
  redis.cli('ACL', 'SETUSER', 'app', ...rights);
  const url = redis.url.replace('//', '//app:secret@');
  const asUser = () => open(t, url, isIORedis ? { enableReadyCheck: false } : {});
  const log = new Limits(await asUser(), { ...patient, preloaded: true }).listLog('app', perMinute);
  const message = /sluice load.*SCRIPT LOAD < list_log_v1.lua/;
  await assert.rejects(log.allow('ada'), { name: 'NotLoadedError', message });
  const unaware = new Limits(await asUser(), patient);
  await assert.rejects(unaware.listLog('app', perMinute).allow('ada'), { name: 'NotLoadedError' });
  const able = new Limits(admin, { ...patient, preloaded: true });
  await assert.rejects(able.listLog('app', perMinute).allow('ada'), { name: 'NotLoadedError' });
  await loader.listLog('app', perMinute).allow('bob');
  assert.equal((await log.allow('ada')).remaining, 99);
  report('trap', 'EVALSHA only');
});

// The line of the -use user.
const useRights = process.env.SLUICE_ACL.split('\n').find((line) => line.startsWith('user sluice-use '));

test('errors of the script', async (t) => {
  const redis = await startRedis(t);
  const limits = new Limits(await open(t, redis.url), patient);
  redis.cli('SET', 'sluice:x:{ada}:ll1', 'something else');
  const log = limits.listLog('x', perMinute);
  await assert.rejects(log.allow('ada'), { name: 'StateError', code: 'WRONGTYPE', script: 'list_log_v1' });
  await log.reset('ada');
  assert.equal((await log.allow('ada')).remaining, 99);
  const ids = limits.zsetLog('x', perMinute);
  await ids.allow('ada', { id: 'a' });
  const other = ids.allowN('ada', 2, { id: 'a' });
  await assert.rejects(other, { name: 'ArgumentError', argument: 'id', script: 'zset_log_v1' });
  const bucket = limits.tokenBucket('x', { permits: 5, window: '1s' });
  await bucket.setRate('ada', { permits: 2, window: '1s' });
  await assert.rejects(bucket.allowN('ada', 3), { name: 'ExceedsLimitError' });
  assert.deepEqual((await bucket.allow('ada')).limit, { permits: 2, window: 1000 });
  await assert.rejects(log.allowN('ada', 101), { name: 'ExceedsLimitError' });
});

test('wait, reserve and giveBack', async (t) => {
  const redis = await startRedis(t);
  const limits = new Limits(await open(t, redis.url), patient);
  const two = { permits: 2, window: '400ms' };
  for (const kind of ['listLog', 'zsetLog', 'gcra', 'tokenBucket', 'sliceRing']) {
    const limiter = limits[kind]('waits', two);
    const granted = await Promise.all(Array.from({ length: 5 }, () => limiter.wait('ada')));
    const times = granted.map(({ now, wait }) => now + wait).sort((a, b) => a - b);
    for (let i = 2; i < 5; i++) assert.ok(kind === 'gcra' || times[i] - times[i - 2] >= 399.9, `${kind} ${times}`);
  }
  const log = limits.listLog('reserves', { permits: 1, window: '1h' });
  const first = await log.allow('ada');
  await assert.rejects(log.wait('ada', { maxWait: '10s' }), { name: 'WaitError' });
  assert.equal((await log.reserve('ada')).ok, false);
  assert.equal(await log.giveBack('ada', first), 1);
  await assert.rejects(log.giveBack('bob', first), { name: 'ArgumentError' });
  assert.equal(await log.giveBack('ada', await log.peek('ada')), 0);

  const short = limits.zsetLog('reserves', { permits: 1, window: '30s' });
  await short.allow('ada');
  assert.equal((await short.reserve('ada', { maxWait: '10s' })).ok, false);
  const booking = await short.reserve('ada');
  assert.ok(booking.ok && booking.delay > 20000);
  await booking.cancel();
  await booking.cancel();
  assert.ok((await short.peek('ada')).wait < 30000, 'the booking went back');
  const leaving = new AbortController();
  setTimeout(() => leaving.abort(new Error('enough')), 50);
  await assert.rejects(short.wait('ada', { signal: leaving.signal }), /enough/);
  await until('the booking is given back', async () => (await short.peek('ada')).wait < 30000);
  await assert.rejects((await limits.gcra('reserves', two).reserve('ada')).cancel(), { name: 'ArgumentError' });
});

test('a window is a ring of its own', async (t) => {
  const redis = await startRedis(t);
  const limits = new Limits(await open(t, redis.url), patient);
  const plan = (...windows) => limits.sliceRing('plan', { windows: windows.map((window) => ({ permits: 5, window })) });
  const [first, later] = [plan('1m', '1h'), plan('1m', '1d')];
  const left = async (ring) => (await ring.peek('ada')).windows.map((w) => [w.limit.window / 6e4, w.remaining]).sort();
  const granted = await first.allowN('ada', 3);
  assert.equal((await later.allowN('ada', 2)).granted, true);
  assert.deepEqual([await left(first), await left(later)], [[[1, 0], [60, 2]], [[1, 0], [1440, 3]]]);
  assert.equal(await later.giveBack('ada', JSON.parse(JSON.stringify(granted)), 2), 2);
  assert.deepEqual([await left(first), await left(later)], [[[1, 2], [60, 4]], [[1, 2], [1440, 3]]]);
  await assert.rejects(limits.listLog('plan', perHour).giveBack('ada', granted), { name: 'ArgumentError' });
  await first.reset('ada');
  assert.deepEqual([await left(first), await left(later)], [[[1, 5], [60, 5]], [[1, 5], [1440, 3]]]);
  assert.equal((await limits.all([[first, 'ada']])).rings, undefined, 'its parts have them');
});

test('all limiters are charged, or none', async (t) => {
  const redis = await startRedis(t);
  const limits = new Limits(await open(t, redis.url), patient);
  const [log, ids, ring] = ['listLog', 'zsetLog', 'sliceRing'].map((kind) => limits[kind]('all', perHour));
  const granted = await limits.all([[log, 'ada', 3], [ids, 'ada', 2], [ring, 'all']]);
  assert.deepEqual([granted.granted, granted.remaining, granted.degraded, granted.denied], [true, 97, false, []]);
  assert.deepEqual(granted.parts.map((part) => [part.limiter, part.permits]), [['all', 3], ['all', 2], ['all', 1]]);
  assert.equal(await log.giveBack('ada', granted.parts[0], 1), 1);
  const one = limits.listLog('one', { permits: 1, window: '1h' });
  await one.allow('ada');
  const denied = await limits.all([[log, 'ada'], [one, 'ada'], [ids, 'ada'], [ring, 'all']]);
  assert.deepEqual([denied.granted, denied.parts, denied.wait], [false, [], denied.denied[0].wait]);
  assert.deepEqual(denied.denied.map((part) => [part.limiter, part.subject]), [['one', 'ada']]);
  const remaining = async () => (await Promise.all([log, ids].map((each) => each.peek('ada')))).map((d) => d.remaining);
  await until('all is given back', async () => String(await remaining()) === '98,98');
  redis.cli('SET', 'sluice:bad:{ada}:ll1', 'x');
  const fails = limits.all([[ids, 'ada'], [limits.listLog('bad', perHour), 'ada']]);
  await assert.rejects(fails, { name: 'StateError' });
  await until('all is given back', async () => String(await remaining()) === '98,98');
  const never = limits.listLog('never', { permits: 0, window: '1h' });
  assert.equal((await limits.all([[log, 'ada'], [never, 'ada']])).wait, Infinity);
  for (const [parts, message] of [
    [[], /all: parts \[\]: want \[limiter, subject, n\]/],
    [[[limits.gcra('x', perHour), 'ada']], /all: limiter "gcra": want one that can give back: listLog,/],
    [[[log, 'ada'], [log, 'ada']], /all: subject "ada": want each limiter once about a subject, with the sum$/],
    [[[ids, 'ada'], [log, 'ada', 101]], /all: all\(101\) exceeds limit 100$/],
  ]) {
    await assert.rejects(limits.all(parts), { message });
  }
  assert.equal(String(await remaining()), '98,98');
});

const aborted = (signal) => signal.aborted || once(signal, 'abort');

test('slots', async (t) => {
  const redis = await startRedis(t);
  const limits = new Limits(await open(t, redis.url), patient);
  const render = limits.concurrency('render', { slots: 1, ttl: '6s' });
  const slot = await render.acquire('acme');
  assert.equal((await render.tryAcquire('acme')).slot, null);
  await assert.rejects(render.acquire('acme', { maxWait: 500 }), { name: 'WaitError' });
  const waits = render.acquire('acme', { maxWait: '20s' });
  await until('the lease is renewed twice', async () => {
    const { now, resetAfter } = await render.peek('acme');
    return now + resetAfter > slot.decision.now + 6000 + 3000;
  });
  assert.equal(slot.signal.aborted, false);
  await slot[Symbol.asyncDispose]();
  await slot.release();
  const next = await waits;
  await render.reset('acme');
  await aborted(next.signal);
  assert.match(next.signal.reason.message, /slot lost: the server has no lease of it$/);
  await assert.rejects(next.release(), { name: 'SlotLostError' });
  await until('all slots are free', async () => (await render.peek('acme')).remaining === 1);

  const perSecond = { slots: 1, ttl: '1s' };
  const short = limits.concurrency('short', perSecond);
  const stuck = await short.acquire('acme');
  const hasty = new Limits(limits.caller.connection.client, { timeout: 50 }).concurrency('short', perSecond);
  redis.child.kill('SIGSTOP');
  const other = await hasty.tryAcquire('acme').catch((error) => error.message);
  assert.match(other, /^sluice: concurrency_v1: outcome unknown: it took effect once or not at all: no answer/);
  await aborted(stuck.signal);
  redis.child.kill('SIGCONT');
  assert.equal(stuck.signal.reason.name, 'SlotLostError');
  await until('the lease is released', async () => (await short.peek('acme').catch(() => ({}))).remaining === 1);
});

test('a connection to the wrong place: calls go over a new one', async (t) => {
  const [redis, master] = await Promise.all([startRedis(t), startRedis(t)]);
  const proxy = await startProxy(t, redis.port);
  const connected = await open(t, proxy.url);
  const log = new Limits(connected, patient).listLog('failover', perHour);
  await log.allow('ada');
  proxy.target = master.port; // as DNS does it: what is connected stays
  redis.cli('REPLICAOF', '127.0.0.1', master.port);
  const decisions = await Promise.all(Array.from({ length: 20 }, () => log.allow('ada')));
  assert.ok(decisions.every(({ granted }) => granted));
  assert.equal(master.cli('LLEN', 'sluice:failover:{ada}:ll1'), '20');
  assert.ok(isIORedis ? connected.status === 'ready' : connected.isReady, 'the client is left alone');
});

test('an idle connection that was closed while the process was busy is noticed', async (t) => {
  const redis = await startRedis(t);
  const log = new Limits(await open(t, redis.url), patient).listLog('idle', perHour);
  await log.allow('ada');
  await pause(50);
  redis.cli('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'); // it blocks the event loop
  assert.equal((await log.allow('ada')).remaining, 98);
});

test('refused inside a script: nothing was charged', async (t) => {
  const redis = await startRedis(t);
  const log = new Limits(await open(t, redis.url), patient).listLog('full', perHour);
  redis.cli('CONFIG', 'SET', 'maxmemory', '1');
  await assert.rejects(log.allow('ada'), { name: 'UnavailableError', message: /OOM .*; raise maxmemory/ });
  redis.cli('CONFIG', 'SET', 'maxmemory', '0');
  redis.cli('ACL', 'SETUSER', 'default', '-rpush', '-lpush');
  await assert.rejects(log.allow('ada'), { name: 'UnavailableError', message: /; "sluice acl" prints the rights/ });
  assert.equal((await log.peek('ada')).remaining, 100);
});

test('what is reserved is settled whatever happens', async (t) => {
  const redis = await startRedis(t);
  const proxy = await startProxy(t, redis.port);
  const limits = new Limits(await open(t, proxy.url), { timeout: '1s' });
  const tokens = limits.budget('tokens', { permits: 1000, window: '1h' });
  const left = async () => (await tokens.peek('ada')).remaining;
  await tokens.reserved('ada', 'unset', 1).then((r) => r.settle());
  const denied = await tokens.reserved('ada', 'denied', 1000);
  assert.deepEqual([denied.granted, await denied.settle(), await left()], [false, undefined, 999]);
  const r = await tokens.reserved('ada', 'r', 900);
  assert.throws(() => (r.used = -1), { name: 'ArgumentError' });
  r.used = 10;
  assert.equal(r.used, 10);
  redis.child.kill('SIGSTOP');
  await r[Symbol.asyncDispose]();
  const slots = limits.concurrency('slots', { slots: 1, ttl: '1h' });
  await assert.rejects(tokens.reserved('ada', 'lost', 100));
  await assert.rejects(slots.tryAcquire('ada'));
  assert.equal(await limits.flush({ timeout: 50 }), false);
  redis.child.kill('SIGCONT');
  assert.equal(await limits.flush(), true);
  assert.deepEqual([await left(), (await slots.peek('ada')).remaining], [989, 1]);
});
