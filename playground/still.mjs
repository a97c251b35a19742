// The first picture of README, taken of the built page: node still.mjs FILE.
import { browse, open, run, serve } from './tests/site.mjs';

const [site, browser] = await Promise.all([serve(), browse()]);
const viewport = { width: 1000, height: 600 };
const { page } = await open(browser, site.url, { colorScheme: 'light', viewport, deviceScaleFactor: 1.5, reducedMotion: 'reduce' });
await run(page, '');
const lanes = await page.locator('section:has(#lanes)').boundingBox();
await page.screenshot({ path: process.argv[2], fullPage: true, clip: { x: 0, y: 0, width: viewport.width, height: lanes.y + lanes.height } });
await browser.close();
await site.close();
