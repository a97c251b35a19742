// The parts of the page that need no browser: durations, links, records, and texts for other programs.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { copyAs, languages } from '../web/copy.js';
import { bytes, count, fullest, duration, goDuration, niceStep, parseDuration } from '../web/format.js';
import { FIELDS, Run, WAIT } from '../web/run.js';
import * as state from '../web/state.js';

test('a script is one word for the shell, whatever is in it', () => {
  const source = `--[[ "$(touch x)" \`touch x\` \nLUA\ntouch x\n: ]] return 'it''s'`;
  const call = { keys: ["a'b c"], args: [{ value: '5' }] };
  const folder = mkdtempSync(join(tmpdir(), 'sluice-copy-'));
  writeFileSync(join(folder, 'redis-cli'), '#!/bin/sh\nprintf "%s\\0" "$@"\n', { mode: 0o755 });
  const env = { PATH: `${folder}:${process.env.PATH}` };
  const sent = execFileSync('sh', { cwd: folder, env, input: copyAs('redis-cli', { id: 'own', source }, call) });
  assert.deepEqual(sent.toString().split('\0'), ['EVAL', source, '1', "a'b c", '5', '']);
  assert.deepEqual(readdirSync(folder), ['redis-cli']);
  rmSync(folder, { recursive: true });
});

test('durations are read as Go writes them', () => {
  const cases = { '1s': 1e6, '500ms': 5e5, '1m30s': 90e6, '1.5s': 1.5e6, '.5s': 5e5, '-10s': -10e6, 0: 0, '7us': 7 };
  assert.equal(parseDuration('1h'), 3600e6);
  for (const [text, us] of Object.entries(cases)) assert.equal(parseDuration(text), us, text);
  for (const text of ['', '1', 's', '1s x', '1 s', 'ten']) assert.ok(Number.isNaN(parseDuration(text)), text);
  for (const us of [1, 1500, 2e6, 61e6, 1_234_567]) assert.equal(parseDuration(goDuration(us)), us);
});

test('numbers for people', () => {
  const cases = {
    0: '0 s',
    7: '7 µs',
    1500: '1.5 ms',
    999_400: '999 ms',
    999_900: '1 s',
    1.25e6: '1.25 s',
    90e6: '90 s',
    600e6: '10 min',
    7200e6: '2 h',
  };
  for (const [us, text] of Object.entries(cases)) assert.equal(duration(Number(us)), text);
  assert.equal(duration(-10e6), '–10 s');
  assert.equal(fullest({ most: 1000, promised: 5, window: 2e6 }), '1,000 of 5 in 2 s');
  assert.equal(fullest({ most: 4, promised: 5, window: 0 }), '4 of 5 at once');
  assert.equal(count(50000), '50,000');
  assert.deepEqual([84, 25_700, 2_100_000].map(bytes), ['84 B', '25.7 kB', '2.1 MB']);
  assert.deepEqual(
    [10, 7, 0.3].map((length) => niceStep(length, 10)),
    [1, 1, 0.05],
  );
});

test('a link holds what is not the default, and opening it restores all', () => {
  state.open('#rate=30&lanes=gcra&paint=0az');
  assert.equal(state.get('rate'), '30');
  assert.deepEqual(state.bins(), [0, 10, 35]);
  assert.equal(state.link(), 'lanes=gcra&rate=30&paint=0az');
  state.set({ rate: state.DEFAULTS.rate });
  state.setBins([10, 10, 10]);
  assert.equal(state.link(), 'lanes=gcra');
  state.open('');
  assert.equal(state.link(), '');
});

test('a parameter that the page does not know stays for the engine to refuse, until it is forgotten', () => {
  for (const [link, name] of [['rtae=30', 'rtae'], ['rate=5&rate=50', 'rate'], ['toString=1', 'toString']]) {
    state.open(`#${link}`);
    assert.equal(state.link(), link);
    state.forget(name);
    assert.equal(state.link(), '');
  }
});

test('listeners hear of changes only', () => {
  const heard = [];
  state.onChange((names) => heard.push(names));
  state.set({ rate: '8' });
  state.set({ rate: '9', permits: '5' });
  state.open('');
  assert.deepEqual(heard, [['rate'], ['rate']]);
});

test('links are the same in any order and with any defaults', () => {
  assert.ok(state.same('rate=30&lanes=gcra', 'lanes=gcra&seed=1&rate=30'));
  assert.ok(!state.same('rate=30', 'rate=31'));
});

test('records go to their lanes, also beyond the first array', () => {
  const run = new Run('', { lanes: [{}, {}] });
  const calls = 1000;
  const records = new Float64Array(calls * FIELDS);
  for (let i = 0; i < calls; i++) records.set([i % 2, i, 3, 1, 1, i * 2, 0, 1], i * FIELDS);
  run.add({ records: records.buffer, audit: { done: true } });
  assert.deepEqual(
    run.lanes.map((lane) => lane.length),
    [500, 500],
  );
  assert.equal(run.lanes[1].get(499, WAIT), 999 * 2);
  assert.deepEqual(run.result().lanes[0][1], [0, 2, 3, 1, 1, 4, 0, 1]);
});

const call = (key, args) => ({
  sha1: 'abc',
  keys: [key],
  args: Object.entries(args).map(([name, value]) => ({ name, value })),
});
const logCall = call("sluice:play:{ada%7D's}:ll1", { limit: '5', window: '250000', permits: '2', max_wait: '0' });

test('a call as text for other programs', () => {
  const lane = { id: 'list_log', file: 'list_log_v1.lua', promise: [] };
  assert.deepEqual(languages(lane, logCall), ['redis-cli', 'Go', 'Python', 'Node']);
  const all = languages(lane, logCall).map((language) => copyAs(language, lane, logCall));
  assert.match(all[0], /EVALSHA abc 1 'sluice:play:\{ada%7D'\\''s\}:ll1' 5 250000 2 0\n$/);
  assert.match(all[1], /limits\.ListLog\("play", loader\.Limit\{Permits: 5, Window: 250\*time\.Millisecond\}\)/);
  assert.match(all[1], /AllowN\(ctx, "ada\}'s", 2\)/);
  assert.match(all[2], /list_log\("play", permits=5, window=timedelta\(milliseconds=250\)\)/);
  assert.match(all[3], /listLog\("play", \{ permits: 5, window: 250 \}\)/);
});

test('slots, a budget and the calls that end them as text', () => {
  const slots = { id: 'concurrency', file: 'concurrency_v1.lua', promise: [{ permits: 5, window: 0 }] };
  const acquire = call('sluice:play:{a}:cc1', { limit: '5', ttl: '30000000', renew: '0', id: '7' });
  assert.match(copyAs('Go', slots, acquire), /Concurrency\("play", 5, 30\*time\.Second\)\n.*TryAcquire\(ctx, "a"\)/);
  assert.match(
    copyAs('Python', slots, acquire),
    /concurrency\("play", slots=5, ttl=timedelta\(seconds=30\)\)\nslot, decision = .*try_acquire/,
  );
  assert.match(copyAs('Node', slots, acquire), /concurrency\("play", \{ slots: 5, ttl: 30000 \}\).*\n.*tryAcquire/);
  const renew = call('sluice:play:{a}:cc1', { limit: '5', ttl: '30000000', renew: '1', id: '7' });
  assert.deepEqual(languages(slots, renew), ['redis-cli']);
  const budget = { id: 'budget', file: 'budget_v1.lua', promise: [{ permits: 9, window: 60e6 }] };
  const reserve = call('sluice:play:{a}:sr1', { ttl: '60000000', permits: '4' });
  reserve.keys.push('sluice:play:{a}:bg1:7.2');
  assert.match(
    copyAs('Go', budget, reserve),
    /Budget\("play", \[\].*, loader\.SettleWithin\(time\.Minute\)\)\n.*Reserve\(ctx, "a", "7\.2", 4\)/,
  );
  assert.match(
    copyAs('Python', budget, reserve),
    /\], settle_within=.*=60\)\)\ndecision = limiter\.reserve\("a", "7\.2", 4\)/,
  );
  assert.match(copyAs('Node', budget, reserve), /settleWithin: 60000 .*\n.*reserve\("a", "7\.2", 4\)/);
  const second = { file: 'budget_settle_v1.lua' };
  const settle = { ...reserve, second: true };
  assert.deepEqual(languages(budget, settle), ['redis-cli']);
  assert.match(copyAs('redis-cli', { ...budget, second }, settle), /< budget_settle_v1\.lua\nredis-cli EVALSHA abc 2 /);
  assert.deepEqual(languages({ id: 'ahead' }, { ...reserve, process: 3 }), ['redis-cli']);
  assert.deepEqual(languages({ id: 'ahead' }, { keys: [], args: null, process: 3 }), []);
});

test('a booking, a burst and a ring as text', () => {
  const gcra = call('sluice:play:{a}:gcra1', {
    limit: '5',
    window: '1000000',
    burst: '9',
    permits: '1',
    max_wait: '2000000',
  });
  const text = copyAs('Go', { id: 'gcra', promise: [] }, gcra);
  assert.match(text, /Burst: 9\}, loader\.MaxWait\(2\*time\.Second\)\)\n/);
  assert.match(text, /ReserveN/);
  const ring = call('sluice:play:{a}:sr1', { permits: '1', slice_1: '300000', size_1: '201', limit_1: '5' });
  const promise = [
    { permits: 5, window: 60e6 },
    { permits: 20, window: 3600e6 },
  ];
  assert.match(
    copyAs('Go', { id: 'slice_ring', promise }, ring),
    /\[\]loader\.Limit\{\{Permits: 5, Window: time\.Minute\}, \{Permits: 20, Window: time\.Hour\}\}\)\n/,
  );
  assert.match(
    copyAs('Node', { id: 'slice_ring', promise }, ring),
    /windows: \[\{ permits: 5, window: 60000 \}, .*\] \}/,
  );
});
