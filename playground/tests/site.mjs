// The page as a stranger has it: built files, a plain file server, a real Chromium.
import { once } from 'node:events';
import { createReadStream, existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { extname, join, normalize } from 'node:path';
import { chromium } from 'playwright-core';
import * as state from '../web/state.js';

const dist = new URL('../dist/', import.meta.url).pathname;
const types = {
  '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json',
  '.wasm': 'application/wasm', '.svg': 'image/svg+xml',
};

/** serve serves playground/dist on a free port of loopback, and notes what was asked for. */
export async function serve() {
  const asked = [];
  const server = createServer((request, response) => {
    const path = normalize(new URL(request.url, 'http://page').pathname);
    asked.push(path);
    const file = join(dist, path.endsWith('/') ? `${path}index.html` : path);
    if (!existsSync(file)) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { 'content-type': types[extname(file)] ?? 'application/octet-stream' });
    createReadStream(file).pipe(response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const close = async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  };
  return { url: `http://127.0.0.1:${server.address().port}/`, asked, close };
}

/** browse starts Chromium. It is found where Debian and most others put it, or by CHROMIUM. */
export function browse() {
  const found = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
    .find((path) => path && existsSync(path));
  if (!found) throw new Error('no Chromium: install the package chromium, or set CHROMIUM to its path');
  return chromium.launch({
    executablePath: found,
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'],
  });
}

/** open opens the page and collects what it complains of. */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  await page.goto(url);
  return { context, page, complaints };
}

/** run opens a link in the page, and returns its result when all of it has run. */
export async function run(page, link) {
  state.open(link);
  const canonical = state.link();
  await page.evaluate((hash) => (location.hash = `#${hash}`), link);
  await page.mouse.click(2, 2); // the first touch loads the engine
  await page.waitForFunction((wanted) => {
    const result = window.playground.result();
    const failure = document.querySelector('#failure');
    if (!failure.hidden) throw new Error(failure.innerText);
    return result?.done && result.link === wanted && document.querySelector('#status').textContent.includes('browser.');
  }, canonical, { timeout: 300_000, polling: 50 });
  return resultOf(page);
}

/** resultOf returns what the page has of its last run. */
export const resultOf = (page) => page.evaluate(() => window.playground.result());
