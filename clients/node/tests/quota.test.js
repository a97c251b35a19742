// Quotas: periods of a calendar, and what they hold.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { Limits, headersOf } from 'sluice-redis';
import { open } from './clients.js';
import { startRedis } from './servers.js';

const { momentsOf } = createRequire(import.meta.url)('./node_modules/sluice-redis/src/quota.js');
const day = 86400e3;

test('periods: the table of the Go loader', () => {
  const table = JSON.parse(readFileSync(new URL('../../../loader/testdata/periods.json', import.meta.url)));
  assert.ok(table.length > 10);
  for (const { name, period, zone, at, moments } of table) {
    const want = moments.map(Date.parse);
    for (const time of [Date.parse(at), want[1], want[2] - 1]) {
      assert.deepEqual(momentsOf(period, zone, time), want, name);
    }
  }
});

test('a quota', async (t) => {
  const redis = await startRedis(t);
  const limits = new Limits(await open(t, redis.url), { timeout: '10s' });
  const begin = Math.floor(Date.now()) - 10 * day;
  const period = { begin: new Date(begin), end: begin + 30 * day };
  const quota = limits.quota('exports', { permits: 10, period });
  const d = await quota.allowN('ada', 4);
  assert.deepEqual([d.granted, d.remaining, d.limit.window], [true, 6, 30 * day]);
  assert.deepEqual([d.periodBegin, d.periodEnd, d.now + d.resetAfter], [begin, period.end, period.end]);
  assert.equal(headersOf(quota, d)['RateLimit-Policy'], '"exports";q=10;w=2592000');
  const denied = await limits.quota('exports', { permits: 10, period }).allowN('ada', 7);
  assert.deepEqual([denied.granted, denied.now + denied.wait], [false, period.end]);
  await assert.rejects(quota.wait('ada', { n: 7, maxWait: '1d' }), { name: 'WaitError' });
  assert.deepEqual([await quota.giveBack('ada', d, 3), (await quota.peek('ada')).remaining], [3, 9]);
  const over = await quota.report('ada', 10);
  assert.deepEqual([over.granted, over.now + over.wait], [false, period.end]);
  const fits = await limits.quota('exports', { permits: 11, period }).report('ada', 0);
  assert.deepEqual([fits.granted, fits.wait, fits.permits, fits.retryAfterSeconds], [true, 0, 0, 0]);

  const next = limits.quota('exports', { permits: 10, period: { begin: begin + day, end: period.end } });
  assert.deepEqual([(await next.allow('ada')).remaining, await next.giveBack('ada', d)], [9, 0], 'another period');
  await quota.reset('ada');
  assert.equal((await quota.peek('ada')).remaining, 10);

  const month = limits.quota('m', { permits: 3, period: 'month', zone: 'Europe/Berlin' });
  const minute = limits.listLog('w', { permits: 2, window: '1m' });
  const both = [];
  for (let i = 0; i < 3; i++) both.push((await limits.all([[month, 'ada'], [minute, 'ada']])).granted);
  assert.deepEqual(both, [true, true, false]);
  await limits.flush();
  const { remaining, now, ...left } = await month.allow('ada');
  assert.ok(remaining === 0 && left.periodBegin <= now && now < left.periodEnd);
  const inBerlin = new Intl.DateTimeFormat('en', { timeZone: 'Europe/Berlin', day: 'numeric', hour: 'numeric' });
  assert.match(inBerlin.format(left.periodBegin), /^1, 12\WAM$/);
});

test('without Redis, and mistakes', async () => {
  const gone = new Limits({ sendCommand: async () => Promise.reject(new Error('down')) }, { onFailure: 'open' });
  const quota = gone.quota('x', { permits: 3, period: 'day' });
  assert.equal((await quota.allow('ada')).degraded, true);
  await assert.rejects(quota.report('ada', 1), { name: 'OutcomeUnknownError' });
  const zero = gone.quota('x', { permits: 0, period: 'day' });
  assert.deepEqual([(await zero.allow('ada')).granted, (await zero.report('ada', 5)).granted], [false, false]);
  const permits = 1;
  for (const [options, message] of [
    [{ permits: -1, period: 'day' }, 'permits -1: want a whole number, 0 to 1000000000000'],
    [{ permits, period: 'hour' }, 'period "hour": want "day", "week", "month", "year" or { begin, end }'],
    [{ permits }, 'period undefined: want "day", "week", "month", "year" or { begin, end }'],
    [{ permits, period: { begin: 'now', end: 5 } },
      'begin "now": want a Date or milliseconds since 1970, in whole microseconds'],
    [{ permits, period: { begin: 5, end: 5 } }, 'end 5: want a time after the begin'],
    [{ permits, period: { begin: 5, end: 6, zone: 'UTC' } }, 'zone is not an option of period'],
    [{ permits, period: { begin: 5, end: 6 }, zone: 'UTC' },
      'zone "UTC": want none: your own period has its begin and its end'],
    [{ permits, period: 'day', zone: 'Berlin' }, 'zone "Berlin": want the name of a zone, as "Europe/Berlin"'],
    [{ permits, period: 'day', onFailure: { local: 1 } }, 'onFailure { local: 1 }: want "error", "open" or "deny"'],
  ]) {
    assert.throws(() => gone.quota('x', options), { name: 'ArgumentError', message: `sluice: x: ${message}` });
  }
  await assert.rejects(quota.report('ada', 1e12 + 1), { message: /n 1000000000001: want .*, 0 to 1000000000000$/ });
});
