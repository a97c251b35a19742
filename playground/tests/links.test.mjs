// Random links: what the page decides is what the same traffic gets in Go, call by call. LINKS sets how many.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, test } from 'node:test';
import { links } from './links.mjs';
import { browse, open, run, serve } from './site.mjs';

const count = Number(process.env.LINKS ?? 200);
const seed = Number(process.env.SEED ?? 1);

test(`${count} random links: the page decides as Go does`, async () => {
  const made = links(count, seed);
  const cwd = new URL('..', import.meta.url);
  const answers = execFileSync('go', ['run', './native'], { cwd, input: made.join('\n'), maxBuffer: 1 << 30 });
  const inGo = answers.toString().trimEnd().split('\n').map((line) => JSON.parse(line));
  const [site, browser] = await Promise.all([serve(), browse()]);
  after(() => Promise.all([browser.close(), site.close()]));
  const { page, complaints } = await open(browser, site.url);
  let calls = 0;
  const red = {};
  for (const [n, link] of made.entries()) {
    const wanted = inGo[n];
    assert.equal(wanted.error, undefined, link);
    const { opened, audit, lanes } = await run(page, link);
    for (const [i, lane] of lanes.entries()) {
      assert.deepEqual(lane, wanted.records.filter((record) => record[0] === i), `#${link}: ${opened.lanes[i].id}`);
    }
    assert.deepEqual(audit, wanted.audit, link);
    calls += wanted.records.length;
    for (const [i, { id, kind }] of opened.lanes.entries()) {
      const over = audit.lanes[i].windows.some((window) => window.over);
      assert.ok(!(over && kind === 'ours'), `${id} is above its limit: #${link}`);
      red[id] = (red[id] ?? 0) + over;
    }
  }
  assert.deepEqual(complaints, []);
  const faulty = ['fixed_window', 'two_windows', 'tutorial_bucket', 's3', 'counter', 'cached_counter'];
  for (const way of faulty) assert.ok(red[way] > 0, `${way} is never red`);
  console.log(`${count} links of seed ${seed}: ${calls} calls equal; links above the limit: ${JSON.stringify(red)}`);
});
