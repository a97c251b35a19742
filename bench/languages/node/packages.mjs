// Asks a limiter for many callers at once, as bench/packages.go says: node packages.mjs CLIENT WHO HOST PORT CALLERS.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Redis } from 'ioredis';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { createClient } from 'redis';
import { Limits } from '../../../clients/node/src/index.mjs';

const [name, who, host, port, callers] = process.argv.slice(2);
const permits = 1000;
const isIORedis = name === 'ioredis';

async function connect() {
  if (!isIORedis) return createClient({ url: `redis://${host}:${port}` }).on('error', () => {}).connect();
  const client = new Redis(Number(port), host, { autoResendUnfulfilledCommands: false }).on('error', () => {});
  await new Promise((ready) => client.once('ready', ready));
  return client;
}

function package_(client) {
  const log = new Limits(client).listLog('bench', { permits, window: '1s' });
  return async (subject) => (await log.allow(subject)).granted;
}

async function bare(client) {
  const source = readFileSync('../../../scripts/list_log_v1.lua', 'utf8');
  const sha1 = await (isIORedis ? client.script('LOAD', source) : client.scriptLoad(source));
  const args = [String(permits), '1000000', '1', '0'];
  const key = (subject) => `sluice:bench:{${subject}}:ll1`;
  if (isIORedis) return async (subject) => (await client.evalsha(sha1, 1, key(subject), ...args))[0] > 0;
  return async (subject) => (await client.evalSha(sha1, { keys: [key(subject)], arguments: args }))[0] > 0;
}

function peer(storeClient) {
  const limiter = new RateLimiterRedis({ storeClient, points: permits, duration: 1, useRedisPackage: !isIORedis });
  const denied = (reason) => {
    if (reason instanceof Error) throw reason;
    return false;
  };
  return (subject) => limiter.consume(subject).then(() => true, denied);
}

const take = await { package: package_, bare, peer }[who](await connect());

/** Asks for so many milliseconds. Returns decisions a second. */
async function load(ms) {
  const started = performance.now();
  let asked = 0;
  const caller = async () => {
    while (performance.now() - started < ms) {
      if (!(await take(`user-${asked++ % 1000}`))) throw new Error('denied far from the limit');
    }
  };
  await Promise.all(Array.from({ length: Number(callers) }, caller));
  return (asked * 1000) / (performance.now() - started);
}

await load(100);
console.log('ready');
for await (const ms of createInterface({ input: process.stdin })) console.log(String(await load(Number(ms))));
process.exit();
