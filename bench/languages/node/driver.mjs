// Asks one limiter, as bench/drivers.go says.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Redis } from 'ioredis';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { createClient } from 'redis';

const [name, host, port, permits, seconds, clientName, ...rest] = process.argv.slice(2);
const isIORedis = clientName === 'ioredis';

async function connect(options) {
  if (!isIORedis) return createClient({ url: `redis://${host}:${port}` }).on('error', () => {}).connect();
  const client = new Redis(Number(port), host, options).on('error', () => {});
  await new Promise((ready) => client.once('ready', ready));
  return client;
}

async function flexible() {
  const storeClient = await connect({ enableOfflineQueue: false });
  const options = { points: Number(permits), duration: Number(seconds), useRedisPackage: !isIORedis };
  const limiter = new RateLimiterRedis({ storeClient, ...options });
  const denied = (reason) => {
    if (reason instanceof Error) throw reason;
    return false;
  };
  return (subject) => limiter.consume(subject).then(() => true, denied);
}

/** Our package. */
async function sluice() {
  const { Limits } = await import('../../../clients/node/src/index.mjs');
  const limits = new Limits(await connect({ autoResendUnfulfilledCommands: false }));
  const log = limits.listLog('bench', { permits: Number(permits), window: `${seconds}s` });
  return async (subject) => (await log.allow(subject)).granted;
}

/** A script of ours, by plain EVALSHA. */
async function bare(script, suffix, ...args) {
  const client = await connect({ autoResendUnfulfilledCommands: false });
  const source = readFileSync(`../../../scripts/${script}.lua`, 'utf8');
  const sha = await (isIORedis ? client.script('LOAD', source) : client.scriptLoad(source));
  const key = (subject) => `sluice:bench:{${subject}}:${suffix}`;
  if (isIORedis) return async (subject) => (await client.evalsha(sha, 1, key(subject), ...args))[0] === 1;
  return async (subject) => (await client.evalSha(sha, { keys: [key(subject)], arguments: args }))[0] === 1;
}

const limiters = { sluice, 'rate-limiter-flexible': flexible };
const take = await (limiters[name] ?? bare)(...rest);

async function load(callers, ms) {
  const started = performance.now();
  let asked = 0;
  const caller = async () => {
    while (performance.now() - started < ms) {
      if (!(await take(`user-${asked++ % 1000}`))) throw new Error('denied far from the limit');
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return (asked * 1000) / (performance.now() - started);
}

const commands = {
  take: (...words) => take(words.join(' ')).then(Number),
  clock: async () => Date.now(),
  load: (callers, ms) => load(Number(callers), Number(ms)),
};
console.log('ready');
for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...words] = line.split(' ');
  console.log(String(await commands[command](...words).catch((error) => `!${error}`.split('\n', 1)[0])));
}
process.exit();
