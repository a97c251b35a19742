// The pages of docs/clients for frameworks of Node: each program, as it stands there, over HTTP.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { freePort, startRedis, succeeds, until } from './servers.js';

const installed = fileURLToPath(new URL('node_modules/', import.meta.url));

/** Starts the program of a page. Returns its URL. */
async function start(t, page, redis) {
  const text = readFileSync(new URL(`../../../docs/clients/${page}.md`, import.meta.url), 'utf8');
  const [[, code], ...more] = text.matchAll(/^```js\n([^]*?)^```$/gm);
  assert.equal(more.length, 0);
  const folder = mkdtempSync(join(installed, '.page-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const patient = code.replace("onFailure: 'open'", "onFailure: 'open', timeout: '10s'"); // on a busy machine
  writeFileSync(join(folder, 'service.mjs'), patient.replace('redis://localhost:6379', redis.url));
  const port = await freePort();
  const env = { ...process.env, PORT: String(port) };
  const child = spawn('node', [join(folder, 'service.mjs')], { env, stdio: ['ignore', 'inherit', 'inherit'] });
  t.after(() => child.kill());
  const url = `http://localhost:${port}`;
  await until(`the service of ${page}.md`, () => succeeds(fetch(`${url}/health`)));
  return url;
}

for (const page of ['express', 'fastify']) {
  test(page, async (t) => {
    const redis = await startRedis(t);
    const url = await start(t, page, redis);
    const ask = async (path, headers, password) => {
      const body = password && JSON.stringify({ password });
      const sent = { connection: 'close', ...(body && { 'content-type': 'application/json' }), ...headers };
      const response = await fetch(url + path, { headers: sent, body, method: body ? 'POST' : 'GET' });
      return [response.status, response.headers.get('ratelimit-policy'), await response.text()];
    };
    for (const [key, minute, month] of [['key-1', 100, 10000], ['key-2', 5000, 1000000], ['', 100, 10000]]) {
      const [status, policy] = await ask('/report', { 'x-api-key': key });
      assert.equal(status, 200);
      assert.ok(policy.startsWith(`"per-minute";q=${minute};w=60, "per-month";q=${month};w=`), policy);
    }
    assert.equal(redis.cli('EXISTS', 'sluice:per-month:{umbrella}:qt1'), '1');
    assert.deepEqual(await ask('/health'), [200, null, 'well']);
    const left = () => redis.cli('KEYS', 'sluice:failed-login:*').split('\n').filter(Boolean);
    for (let i = 0; i < 6; i++) assert.equal((await ask('/login', {}, 'correct'))[0], 200);
    await until('it is given back', () => left().every((key) => redis.cli('STRLEN', key) === '0'));
    for (let i = 0; i < 5; i++) assert.equal((await ask('/login', {}, 'wrong'))[0], 401);
    const [status, , text] = await ask('/login', {}, 'correct');
    assert.equal(status, 429);
    assert.match(text, /^Too many wrong passwords. Try again in \d+ s.$/);
    for (let i = 0; i < 3; i++) assert.equal((await ask('/catalogue'))[0], 200);
    const [, , metrics] = await ask('/metrics');
    assert.match(metrics, /rate_limit_decisions_total\{limit="failed-login",status="429"\} 1/);
  });
}
