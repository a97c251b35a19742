// One of the processes of the audit: asks for permits of one key as fast as it can, and prints the times of its grants.
import { Limits } from 'sluice-redis';
import { client } from './clients.js';

const [url, kind, seconds] = process.argv.slice(2);
const connected = await client.single({ url });
const limiter = new Limits(connected, { timeout: '10s' })[kind]('audit', { permits: 50, window: '500ms' });
const grants = [];
let denied = 0;

async function ask(end) {
  while (performance.now() < end) {
    const decision = await limiter.allow('one key');
    if (decision.granted) grants.push(Math.round((decision.now + decision.wait) * 1e3));
    else denied++;
  }
}

const end = performance.now() + Number(seconds) * 1e3;
await Promise.all([ask(end), ask(end)]);
console.log(JSON.stringify({ grants, denied }));
await client.close(connected);
