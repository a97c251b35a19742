// The page in a real Chromium: what it loads, what it shows, what it survives, who can use it.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, statSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';
import { browse, open, resultOf, run, serve } from './site.mjs';

const presets = JSON.parse(readFileSync(new URL('../presets.json', import.meta.url)));
const axe = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
const pictures = new URL('../../tmp/playground/', import.meta.url).pathname;

let site;
let browser;
before(async () => {
  [site, browser] = await Promise.all([serve(), browse()]);
  mkdirSync(pictures, { recursive: true });
});
after(async () => {
  await browser.close();
  await site.close();
});

test('draws the recorded run before the engine is loaded, and loads it on the first touch', async () => {
  const { context, page, complaints } = await open(browser, site.url);
  await page.waitForFunction(() => window.playground.result()?.done);
  assert.deepEqual(site.asked.filter((path) => path.endsWith('.wasm')), []);
  const recorded = await resultOf(page);
  await page.mouse.click(5, 5);
  await page.waitForFunction(() => document.querySelector('#status').textContent.includes('runs in your browser'));
  await page.waitForFunction(() => window.playground.result()?.done);
  const live = await resultOf(page);
  assert.deepEqual(live.lanes, recorded.lanes, 'the recorded run is the one that the engine makes');
  assert.deepEqual(live.audit, recorded.audit);
  assert.deepEqual(complaints, []);
  await context.close();
});

test('has no need of a network once it is loaded', async () => {
  const own = await serve();
  const { context, page, complaints } = await open(browser, own.url);
  await run(page, 'seed=2');
  await context.setOffline(true);
  await own.close();
  for (const { id, link } of presets) assert.ok((await run(page, link)).audit.decisions > 0, id);
  assert.deepEqual(complaints, []);
  await context.close();
});

describe('presets', () => {
  for (const { id, link } of presets) {
    test(id, async () => {
      const { context, page } = await open(browser, `${site.url}#${link}`);
      const { opened, audit } = await run(page, link);
      for (const [i, lane] of opened.lanes.entries()) {
        const shown = await page.locator('#lanes > *').nth(i).innerText();
        for (const window of audit.lanes[i].windows) {
          assert.ok(shown.includes(window.most.toLocaleString('en')), `${lane.id} shows ${window.most}: ${shown}`);
          if (lane.kind === 'ours') assert.equal(window.over, false, lane.id);
        }
      }
      await context.close();
    });
  }
});

test('a script that does not end is ended, and the page stays alive', async () => {
  const { context, page } = await open(browser, site.url);
  const result = await run(page, new URLSearchParams({ lanes: 'list_log,own', lua: 'while true do end' }).toString());
  assert.match(result.audit.lanes[1].error, /instructions|budget/);
  assert.ok(result.audit.lanes[0].granted > 0);
  assert.equal((await run(page, 'lanes=gcra')).audit.lanes[0].errors, 0);
  await context.close();
});

test('a script that hangs in a library function is ended by Stop, and the next link runs', async () => {
  const { context, page } = await open(browser, site.url);
  await run(page, 'for=1s');
  const lua = `if tonumber(ARGV[5]) == 3 then local s = ('x'):rep(2^26) for i = 1, 1e5 do s:upper() end end return 1`;
  await page.evaluate((hash) => (location.hash = hash), `#${new URLSearchParams({ lanes: 'own', lua })}`);
  await page.waitForFunction(() => !document.querySelector('#stop').disabled);
  await page.locator('#stop').click();
  await page.locator('#failure').waitFor();
  assert.match(await page.locator('#failure-text').innerText(), /did not end/);
  await page.evaluate(() => (location.hash = '#lanes=gcra'));
  await page.locator('#failure').waitFor({ state: 'hidden' });
  assert.equal((await run(page, 'lanes=gcra')).audit.lanes[0].errors, 0);
  await context.close();
});

test('long replies and errors are cut', async () => {
  const { context, page } = await open(browser, site.url);
  for (const lua of [`return {('x'):rep(2^22)}`, `error(('x'):rep(1e6))`]) {
    const { audit } = await run(page, new URLSearchParams({ lanes: 'own', lua, for: '1s' }).toString());
    assert.ok(audit.lanes[0].error.length < 500, `${audit.lanes[0].error.length} characters`);
  }
  await context.close();
});

test('the skip link leaves the link alone', async () => {
  const { context, page } = await open(browser, `${site.url}#rate=20`);
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.waitForFunction(() => document.activeElement.id === 'lanes-title' && window.playground.result()?.done);
  assert.equal(await page.evaluate(() => location.hash), '#rate=20');
  await context.close();
});

test('says what is wrong with a script, in the words of Redis', async () => {
  const { context, page } = await open(browser, site.url);
  const scripts = {
    'return redis.call("INCR")': /Wrong number of args/,
    'return nothing.at.all': /nonexistent global variable 'nothing'/,
    'redis.call("SET", KEYS[1], "x") return redis.call("LPUSH", KEYS[1], 1)': /WRONGTYPE/,
  };
  for (const [lua, error] of Object.entries(scripts)) {
    const { audit } = await run(page, new URLSearchParams({ lanes: 'own', lua }).toString());
    assert.match(audit.lanes[0].error, error, lua);
  }
  await context.close();
});

test('says which parameter of a link is wrong, and mends it', async () => {
  const { context, page } = await open(browser, `${site.url}#permits=0`);
  await page.mouse.click(5, 5);
  await page.locator('#failure').waitFor();
  assert.match(await page.locator('#failure-text').innerText(), /permits.*"0".*1 to 100000/);
  await page.locator('#mend').click();
  await page.waitForFunction(() => window.playground.result()?.done);
  assert.equal(await page.locator('#failure').isVisible(), false);
  await context.close();
});

test('a link holds the whole state', async () => {
  const link = presets.at(-1).link;
  const first = await open(browser, `${site.url}#${link}`);
  const result = await run(first.page, link);
  await first.page.waitForFunction(() => location.hash.length > 1);
  const second = await open(browser, await first.page.evaluate(() => location.href));
  assert.deepEqual(await run(second.page, link), result);
  await first.context.close();
  await second.context.close();
});

test('a link that is opened while the page writes the address of the last one is run', async () => {
  const { context, page } = await open(browser, `${site.url}#rate=20`);
  await run(page, 'rate=20');
  await page.evaluate(() => {
    location.hash = '#rate=30'; // the browser tells of it later
    history.replaceState(null, '', '#rate=20'); // as the page does 0.3 s after a change
  });
  await page.waitForFunction(() => window.playground.result().link === 'rate=30', undefined, { timeout: 10_000 });
  await context.close();
});

test('shows the source of a call: what was sent, answered and run', async () => {
  const { context, page } = await open(browser, site.url);
  await run(page, 'lanes=list_log');
  await page.waitForFunction(() => document.querySelector('#call-sha1').textContent.length === 40);
  const sent = await page.locator('#call-sent').innerText();
  for (const name of ['limit', 'window', 'permits', 'max_wait']) assert.ok(sent.includes(name), name);
  assert.match(await page.locator('#call-reply').innerText(), /granted/);
  assert.match(await page.locator('#call-commands').innerText(), /TIME/);
  const ran = page.locator('#source .ran');
  assert.ok(await ran.count() > 5, 'lines that ran are marked');
  const sums = readFileSync(new URL('../../scripts/SHA1SUMS', import.meta.url), 'utf8');
  assert.match(sums, new RegExp(`${await page.locator('#call-sha1').innerText()}  list_log_v1.lua`));
  await context.close();
});

test('shows the call that ends a request with its own script', async () => {
  const { context, page } = await open(browser, site.url);
  await run(page, 'lanes=budget&rate=0&calls=0s');
  await page.waitForFunction(() => document.querySelector('#source-file').textContent.includes('budget_settle_v1.lua'));
  assert.match(await page.locator('#call-title').innerText(), /Call 2: .*settled/);
  assert.match(await page.locator('#call-reply').innerText(), /settled\s+1/);
  await page.locator('#previous-call').click();
  await page.waitForFunction(() => document.querySelector('#source-file').textContent.includes('budget_v1.lua'));
  await context.close();
});

test('shows of a call that a process decided that nothing was sent, and its report', async () => {
  const { context, page } = await open(browser, site.url);
  await run(page, 'lanes=ahead&permits=40&rate=0&calls=0s,1ms&processes=1');
  await page.waitForFunction(() => document.querySelector('#call-title').textContent.includes('reported'));
  assert.match(await page.locator('#call-sent').innerText(), /reported\s+1/);
  await page.locator('#previous-call').click();
  const title = /Call 2: .*granted.*process 1$/;
  await page.waitForFunction((title) => title.test(document.querySelector('#call-title').textContent), title);
  assert.match(await page.locator('#call-sent').innerText(), /no command was sent/);
  assert.equal(await page.locator('#copy button').count(), 0);
  await context.close();
});

test('answers the keyboard alone', async () => {
  const { context, page } = await open(browser, site.url);
  await run(page, 'for=1s');
  await page.locator('#stage').focus();
  for (const key of ['ArrowRight', 'ArrowRight', 'Enter', 'ArrowUp', 'ArrowUp']) await page.keyboard.press(key);
  await page.waitForFunction(() => /calls=/.test(location.hash) && /paint=/.test(location.hash));
  await context.close();
});

for (const colorScheme of ['light', 'dark']) {
  const screens = { wide: { width: 1280, height: 900 }, phone: { width: 360, height: 740 } };
  for (const [name, viewport] of Object.entries(screens)) {
    test(`is accessible: ${colorScheme}, ${name}`, async () => {
      const { context, page } = await open(browser, site.url, { colorScheme, viewport, bypassCSP: true });
      await run(page, presets[0].link);
      for (const panel of ['more', 'after']) await page.locator(`#${panel}-panel > summary`).click();
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document));
      assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), []);
      const sideways = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(sideways <= 0, `${sideways} px wider than the screen`);
      await page.screenshot({ path: `${pictures}${colorScheme}-${name}.png`, fullPage: true });
      await context.close();
    });
  }
}

test('the picture of README is small', () => {
  assert.ok(statSync(new URL('../../docs/playground.png', import.meta.url)).size <= 150 * 1024);
});
