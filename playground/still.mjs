// The first picture of README, taken of the built page: node still.mjs FILE.
import { browse, open, run, serve } from './tests/site.mjs';

const [site, browser] = await Promise.all([serve(), browse()]);
const look = { colorScheme: 'light', reducedMotion: 'reduce', viewport: { width: 1000, height: 1400 } };
const { page } = await open(browser, site.url, { ...look, deviceScaleFactor: 1.5 });
await run(page, '');
await page.locator('#lanes').screenshot({ path: process.argv[2] });
await browser.close();
await site.close();
