// Eight processes on one key: no window holds more than the limit.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { report, startRedis } from './servers.js';

const [limit, window] = [50, 500000]; // as the workers have it; microseconds

for (const kind of ['listLog', 'sliceRing']) {
  test(`audit of ${kind}`, async (t) => {
    const redis = await startRedis(t);
    const worker = new URL('audit.worker.js', import.meta.url).pathname;
    const run = () => promisify(execFile)('node', [worker, redis.url, kind, '2']);
    const outputs = await Promise.all(Array.from({ length: 8 }, run));
    const parts = outputs.map(({ stdout }) => JSON.parse(stdout));
    const grants = parts.flatMap((part) => part.grants).sort((a, b) => a - b);
    const denied = parts.reduce((sum, part) => sum + part.denied, 0);
    let most = 0;
    for (let first = 0, i = 0; i < grants.length; i++) {
      while (grants[i] - grants[first] >= window) first++;
      most = Math.max(most, i - first + 1);
    }
    assert.ok(most <= limit, `${most} in a window of ${limit}`);
    assert.ok(grants.length >= 2 * limit && denied > 0, `${grants.length} granted, ${denied} denied`);
    report('audit', `${kind} ${most} of ${limit}, ${grants.length} granted, ${denied} denied`);
  });
}
