// 50 callers without a pause: outage.mjs CLIENT SLUICE PORT with|without, where CLIENT is the folder of a client and
// SLUICE that of our package. Each line of stdin is answered with what there was since the last one: calls, p99 in us,
// those Redis did not decide, those a breaker refused, when the last such, in ms.
import { createRequire } from 'node:module';
import readline from 'node:readline';

const [client, sluice, port, breaker] = process.argv.slice(2);
const require = createRequire(import.meta.url);
const { Limits } = require(sluice);
const { createClient, Redis } = require(client);
const url = `redis://127.0.0.1:${port}`;
const redis = Redis ? new Redis(url, { autoResendUnfulfilledCommands: false }) : createClient({ url });
redis.on('error', () => {});
if (!Redis) await redis.connect();
const limits = new Limits(redis, { onFailure: 'open', ...(breaker === 'without' && { breaker: false }) });
const limiter = limits.gcra('x', { permits: 1e6, window: '1s' });
let [took, undecided, refused, last] = [[], 0, 0, 0];

async function callForEver(subject) {
  for (;;) {
    const since = performance.now();
    const { degraded, cause } = await limiter.allow(subject);
    took.push(performance.now() - since);
    if (degraded) {
      undecided++;
      if (String(cause).includes('breaker is open')) refused++;
      last = Date.now();
    }
    await new Promise(setImmediate); // each request of a server comes in a turn of the event loop
  }
}

for (let i = 0; i < 50; i++) callForEver(String(i));
for await (const _ of readline.createInterface({ input: process.stdin })) {
  const times = Float64Array.from(took).sort();
  console.log(times.length, Math.round((times[Math.floor(times.length * 0.99)] ?? 0) * 1e3), undecided, refused, last);
  [took, undecided, refused] = [[], 0, 0];
}
process.exit();
