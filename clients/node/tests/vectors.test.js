// All vectors through the package's own call, on a stock server with the scripts for a test clock.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { createClient } from 'redis';
import { Limits, SluiceError, redisKey } from 'sluice-redis';
import { open } from './clients.js';
import { report, startRedis } from './servers.js';

const repository = new URL('../../../', import.meta.url);
const vectors = new URL('scripttest/vectors/', repository);
const read = (url) => JSON.parse(readFileSync(url, 'utf8'));
const testClock = read(new URL('testclock.json', vectors));
const raw = (text) => Buffer.from(text, 'latin1');

test('vectors', async (t) => {
  const redis = await startRedis(t);
  const limits = new Limits(await open(t, redis.url));
  const store = await openStore(t, redis.url);
  let steps = 0;
  for (const file of readdirSync(vectors).filter((name) => /_v\d+\.json$/.test(name))) {
    const { script, timelines } = read(new URL(file, vectors));
    for (const { name, steps: timeline } of timelines) {
      await play(limits, store, script, timeline, `${script}, ${name}`);
      steps += timeline.length;
    }
  }
  assert.ok(steps >= 1320, `${steps} steps`);
  report('vectors', `${steps} of ${steps}`);
});

/** Plays a timeline, and compares each reply. The tests of the scripts compare what the keys hold. */
async function play(limits, store, file, steps, where) {
  await store('FLUSHALL');
  for (const [i, step] of steps.entries()) {
    const clock = ['s', Math.floor(step.at / 1e6), 'us', step.at % 1e6].map(String);
    await store('HSET', 'sluice:test:clock', ...clock);
    if (step.command) await store(...step.command.map(raw));
    else assert.deepEqual(await call(limits, step.script ?? file, step), wanted(step), `${where}, step ${i + 1}`);
  }
}

const wanted = ({ reply, error }) => (error === undefined ? { reply } : { error });

const sources = new Map();

/** Calls a script for the test clock by the package's own call. */
async function call(limits, id, { keys, args }) {
  if (!sources.has(id)) {
    let source = readFileSync(new URL(`scripts/${id}.lua`, repository), 'utf8');
    for (const [old, text] of Object.entries(testClock)) source = source.replaceAll(old, text);
    sources.set(id, { id, source, sha1: createHash('sha1').update(source).digest('hex'), file: `${id}.lua` });
  }
  try {
    return { reply: await limits.caller.run(sources.get(id), keys.map(raw), args.map(raw), { timeout: 10000 }) };
  } catch (error) {
    assert.ok(error instanceof SluiceError, error);
    return { error: error.cause.message };
  }
}

async function openStore(t, url) {
  const client = createClient({ url, RESP: 2 });
  client.on('error', () => {});
  await client.connect();
  t.after(() => client.destroy());
  return (...words) => client.sendCommand(words);
}

test('keys.json', () => {
  for (const { prefix, limiter, subject, state, parts, key } of read(new URL('scripts/keys.json', repository))
    .vectors) {
    if (key) assert.equal(redisKey(prefix, limiter, subject, state, parts), key);
    else assert.throws(() => redisKey(prefix, limiter, subject, state, parts), { name: 'ArgumentError' });
  }
});

const ms = (micros) => (micros === undefined ? undefined : micros / 1e3);

test('calls.json: the same keys and arguments as the Go loader', async () => {
  const { vectors: calls } = read(new URL('scripts/calls.json', repository));
  assert.ok(calls.length > 80);
  for (const vector of calls) {
    const sent = await sentFor(vector).catch((error) => ({ refused: error.argument?.toLowerCase() ?? error }));
    const refused = vector.refused?.toLowerCase().replace('limits', 'windows');
    if (refused) assert.deepEqual(sent, { refused }, JSON.stringify(vector));
    else assert.deepEqual(sent, { script: vector.script, keys: vector.keys, args: vector.args });
  }
});

/** Makes the call of a vector, with a client that notes what it is sent. */
async function sentFor(vector) {
  const { scripts } = read(new URL('scripts/manifest.json', repository));
  let sent;
  const sendCommand = async ([, sha1, count, ...rest]) => {
    const { name, version } = scripts.find((script) => script.sha1 === sha1);
    sent = { script: `${name}_v${version}`, keys: rest.slice(0, count), args: rest.slice(count) };
    if (name === 'concurrency') sent.args[sent.args.length - 1] = '<id>';
    return [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
  };
  await callOf(new Limits({ sendCommand }), vector);
  return sent;
}

async function callOf(limits, { limiter, name, limits: given, call, subject, permits: n = 0, id, ...rest }) {
  const method = limiter.replace(/_./g, (letters) => letters[1].toUpperCase());
  const windows = given?.map(({ permits, window, burst }) => ({ permits, window: ms(window), burst }));
  const ring = ['sliceRing', 'budget'].includes(method);
  const quota = { permits: given?.[0].permits, period: { begin: ms(rest.begin), end: ms(rest.end) } };
  const options = method === 'quota' ? quota : {
    ...(ring ? { windows } : windows?.[0]),
    slots: rest.slots,
    ttl: ms(rest.ttl),
    slice: ms(rest.slice),
    settleWithin: ms(rest.settle_within),
    maxWait: ms(rest.max_wait),
    clientId: rest.client_id,
    perClient: rest.per_client,
  };
  const defined = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
  const made = limits[method](name, defined);
  const calls = {
    allow: () => made.allowN(subject, n, { id }),
    peek: () => made.peek(subject),
    set_limit: () => made.setRate(subject, windows[0]),
    reserve: () => (method === 'budget' ? made.reserve(subject, id, n) : made.reserve(subject, { n, id })),
    settle: () => made.settle(subject, id, n),
    charge: () => made.charge(subject, id, n),
    try_acquire: () => made.tryAcquire(subject),
    report: () => made.report(subject, n),
  };
  return calls[call]();
}
