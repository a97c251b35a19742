// A program that has to compile, and lines that must not.
import express from 'express';
import Fastify from 'fastify';
import {
  Limits, keyByIP, expressLimit, fastifyLimit, headersOf, subjectOf, OutcomeUnknownError, SluiceError,
  type Charges, type Decision, type Part, type Result, type Slot,
} from 'sluice-redis';

const limits = new Limits({}, { prefix: 'app', preloaded: true, timeout: '50ms', onFailure: { local: 0.5 } });
const log = limits.listLog('x', { permits: 3, window: '1m', maxWait: 1500, onFailure: 'deny' });
const decision: Decision = await log.allow('ada', { signal: AbortSignal.timeout(10) });
const wait: number = decision.wait + (decision.now ?? 0) + decision.retryAfterSeconds;
const returned: number = await log.giveBack('ada', decision);
const slices: number | undefined = decision.rings?.[0].size;
const reservation = await log.reserve('ada', { n: 2, maxWait: '1s' });
const cancelled: void = reservation.ok ? await reservation.cancel() : undefined;
const ring = limits.sliceRing('x', { windows: [{ permits: 1, window: '1m' }], slice: '1s' });
const left = (await ring.wait('ada', { n: 1 })).windows?.map((window) => window.limit.permits);
await limits.sliceRing('x', { permits: 1, window: '1m' }).peek('ada');
await limits.zsetLog('x', { permits: 1, window: '1m' }).allow('ada', { id: 'a' });
await limits.zsetLog('x', { permits: 1, window: '1m' }).wait('ada', { id: 'a', n: 1 });
await limits.gcra('x', { permits: 1, window: '1m', burst: 5 }).allow('ada');
const bucket = limits.tokenBucket('x', { permits: 1, window: '1m', perClient: true });
await bucket.setRate('ada', { permits: 2, window: 1000 });
await limits.budget('x', { permits: 1, window: '1m', settleWithin: '1h' }).settle('ada', 'id', 5);
const month = limits.quota('x', { permits: 10000, period: 'month', zone: 'Europe/Berlin', maxWait: '1h' });
const end: number | undefined = (await month.report('ada', 5)).periodEnd;
const bill = limits.quota('x', { permits: 5, period: { begin: new Date(0), end: end ?? 0 } });
await limits.all([[bill, 'ada'], [log, 'ada']]);
const { slot: free, decision: last } = await limits.concurrency('x', { slots: 1, ttl: '1s' }).tryAcquire('ada');
const slot: Slot | null = free;
if (last.granted) await slot?.release();
const parts: readonly Part[] = (await limits.all([[log, 'ada'], [ring, 'ada', 2]])).parts;
const middleware = expressLimit(log, { key: keyByIP({ trustedProxies: ['unix'] }), cost: () => 1 });
express().get('/', middleware, (request, response) => void response.send(request.path));
const hook = fastifyLimit(ring, { key: () => ['a', undefined] });
Fastify().get('/', { onRequest: hook }, async () => 'found');
const byPlan: Charges = async (request) => request.free ? [] : [[log, 'ada'], [month, [request.ip, 'ada'], 2]];
const refuse = (request: any, response: any, result: Result) => response.status(result.status).send('later');
const observe = (request: unknown, { decisions }: Result) => console.log(decisions.map(({ limiter }) => limiter));
expressLimit(byPlan, { count: (status) => status === 401, refuse, observe, maxWait: '2s', maxDelayed: 5 });
fastifyLimit((request) => [[log, keyByIP()(request)]], { shadow: true });
const headers: Record<string, string> = headersOf(ring, decision);
const error: SluiceError = new OutcomeUnknownError('lost');
console.log(wait, cancelled, returned, slices, left, parts, middleware, hook, headers, error, subjectOf('a', 'b'));

// @ts-expect-error a misspelt option
limits.listLog('x', { permit: 3, window: '1m' });
// @ts-expect-error a listLog has no burst
limits.listLog('x', { permits: 3, window: '1m', burst: 3 });
// @ts-expect-error a listLog has no ids
log.allow('ada', { id: 'a' });
// @ts-expect-error windows or permits, not both
limits.sliceRing('x', { windows: [{ permits: 1, window: '1m' }], permits: 1 });
// @ts-expect-error a ring does not book
ring.reserve('ada');
// @ts-expect-error a gcra gives nothing back
limits.gcra('x', { permits: 1, window: '1m' }).giveBack('ada', decision);
// @ts-expect-error nor in an all()
limits.all([[limits.gcra('x', { permits: 1, window: '1m' }), 'ada']]);
// @ts-expect-error a quota has no hours
limits.quota('x', { permits: 1, period: 'hour' });
// @ts-expect-error no such option
expressLimit(log, { skip: () => true });
// @ts-expect-error charges are a list
expressLimit(() => [log, 'ada']);
// @ts-expect-error a decision is read-only
decision.granted = true;
