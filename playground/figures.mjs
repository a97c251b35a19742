// Measures the built page in Chromium: node figures.mjs [minutes of use, 10].
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { browse, open, run, serve } from './tests/site.mjs';

const minutes = Number(process.argv[2] ?? 10);
const dist = new URL('./dist/', import.meta.url);
const LOADS = 5;
const FULL = 'lanes=list_log,gcra,slice_ring,fixed_window&permits=100&rate=5000&for=1m&clients=50&key=client';

const site = await serve();
const browser = await browse();
sizes();
await loading();
await speed();
await browser.close();
await site.close();

function sizes() {
  const names = readdirSync(dist).filter((name) => !/\.(gz|br)$/.test(name));
  const total = (suffix) => names.reduce((sum, name) => sum + statSync(new URL(name + suffix, dist)).size, 0);
  const engine = names.find((name) => name.endsWith('.wasm'));
  const size = (suffix) => statSync(new URL(engine + suffix, dist)).size;
  say('engine: raw, gzip, brotli', `${size('')}, ${size('.gz')}, ${size('.br')} bytes`);
  say('all: raw, gzip, brotli', `${total('')}, ${total('.gz')}, ${total('.br')} bytes`);
}

/** From the request for the page, and from the first touch of it. */
async function loading() {
  const pictures = [];
  const decisions = [];
  for (let i = 0; i < LOADS; i++) {
    const { context, page } = await open(browser, 'about:blank');
    await page.addInitScript(watch);
    await page.goto(site.url);
    await page.waitForFunction(() => window.marks.picture);
    await page.mouse.click(2, 2);
    await page.waitForFunction(() => window.marks.decision);
    const { picture, touch, decision } = await page.evaluate(() => window.marks);
    pictures.push(picture);
    decisions.push(decision - touch);
    await context.close();
  }
  say('first picture, median', `${median(pictures)} ms after the request (loopback)`);
  say('first decision, median', `${median(decisions)} ms after the first touch (loopback)`);
}

/** watch runs in the page: it notes the frame in which something is first to be seen. */
function watch() {
  const marks = (window.marks = {});
  addEventListener('pointerdown', (event) => (marks.touch ??= event.timeStamp), true);
  const look = () => {
    const now = performance.now();
    const result = window.playground?.result();
    if (result?.done) marks.picture ??= now;
    if (marks.touch && /in your browser/.test(document.querySelector('#status')?.textContent)) {
      if (result?.audit?.decisions) marks.decision ??= now;
    }
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
}

/** Runs of 50,000 decisions, with keys pressed meanwhile. */
async function speed() {
  const { page } = await open(browser, site.url);
  await run(page, 'for=1s');
  const began = Date.now();
  const { audit } = await run(page, FULL);
  const took = Date.now() - began;
  say('decisions a second', Math.round((1000 * audit.decisions) / took));
  say('one decision', `${(took / audit.decisions).toFixed(3)} ms`);
  await page.evaluate(() => {
    window.slowest = 0;
    new PerformanceObserver((list) => {
      for (const { duration } of list.getEntries()) window.slowest = Math.max(window.slowest, duration);
    }).observe({ type: 'event', durationThreshold: 16 });
  });
  const first = await memory();
  let pressed = 0;
  const end = Date.now() + minutes * 60_000;
  for (let n = 0; Date.now() < end; n++) {
    const running = run(page, `${FULL}&seed=${n + 2}`);
    for (let i = 0; i < 12; i++, pressed++) {
      await page.locator(['#stage', '#lanes canvas', '#own-panel > summary'][i % 3]).first().focus();
      await page.keyboard.press('ArrowRight');
    }
    await running;
  }
  const slowest = await page.evaluate(() => window.slowest);
  say('slowest answer to a key', `${slowest} ms of ${pressed} keys, during runs of 50,000 decisions`);
  say('memory of the page', `${first} MB after the first run, ${await memory()} MB after ${minutes} minutes of runs`);
}

/** memory is what the renderers take. */
async function memory() {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send('SystemInfo.getProcessInfo');
  const ofOne = ({ id }) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${id}/status`, 'utf8'))[1]);
  const kilobytes = processInfo.filter(({ type }) => type === 'renderer').reduce((sum, one) => sum + ofOne(one), 0);
  return Math.round(kilobytes / 1024);
}

function median(values) {
  return Math.round(values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]);
}

function say(what, value) {
  console.log(`${what.padEnd(28)}${value}`);
}
