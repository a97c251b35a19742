// Asks one limiter, as bench/drivers.go says.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Ratelimit } from '@upstash/ratelimit';
import { Redis } from 'ioredis';
import { RateLimiterRedis } from 'rate-limiter-flexible';
import { createClient } from 'redis';

const [name, host, port, permits, seconds, ...rest] = process.argv.slice(2);
const connect = () => createClient({ url: `redis://${host}:${port}` }).on('error', () => {}).connect();
const sha1 = (text) => createHash('sha1').update(text).digest('hex');

async function flexible() {
  const storeClient = new Redis(Number(port), host, { enableOfflineQueue: false }).on('error', () => {});
  await new Promise((ready) => storeClient.once('ready', ready));
  const limiter = new RateLimiterRedis({ storeClient, points: Number(permits), duration: Number(seconds) });
  const denied = (reason) => {
    if (reason instanceof Error) throw reason;
    return false;
  };
  return (subject) => limiter.consume(subject).then(() => true, denied);
}

// Stands in for the library's REST client. The first line of its scripts names a flag that only their service knows, so
// it is left out, and a script is called by the SHA1 of the rest.
async function upstash() {
  const client = await connect();
  const known = new Map();
  const evalsha = (hash, keys, args) => {
    if (!known.has(hash)) throw new Error('NOSCRIPT');
    return client.evalSha(known.get(hash), { keys, arguments: args.map(String) });
  };
  const load = async (script, keys, args) => {
    known.set(sha1(script), await client.scriptLoad(script.slice(script.indexOf('\n'))));
    return evalsha(sha1(script), keys, args);
  };
  const limiter = Ratelimit.slidingWindow(Number(permits), `${seconds} s`);
  const ratelimit = new Ratelimit({ redis: { evalsha, eval: load }, limiter });
  return async (subject) => (await ratelimit.limit(subject)).success;
}

async function sluice(folder, script, suffix, ...args) {
  const client = await connect();
  const sha = await client.scriptLoad(readFileSync(`${folder}/${script}.lua`, 'utf8'));
  return async (subject) => {
    const [granted] = await client.evalSha(sha, { keys: [`sluice:bench:{${subject}}:${suffix}`], arguments: args });
    return granted === 1;
  };
}

const limiters = { 'rate-limiter-flexible': flexible, '@upstash/ratelimit': upstash };
const take = await (limiters[name] ?? sluice)(...rest);
console.log('ready');
for await (const line of createInterface({ input: process.stdin })) {
  const failed = (error) => `!${error}`.split('\n', 1)[0];
  const answer = line === 'clock' ? Date.now() : await take(line.slice('take '.length)).then(Number, failed);
  console.log(String(answer));
}
process.exit();
