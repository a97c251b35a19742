import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Redis } from 'ioredis';

const client = new Redis(process.env.SLUICE_REDIS, {
  commandTimeout: 1000, connectTimeout: 1000, retryStrategy: () => 100, autoResendUnfulfilledCommands: false,
}).on('error', () => {});
const raw = (hex) => Buffer.from(hex, 'hex');

createInterface({ input: process.stdin }).on('line', async (line) => {
  const { id, sha1, file, keys, args } = JSON.parse(line);
  const evalsha = () => client.evalsha(sha1, keys.length, ...keys.map(raw), ...args.map(raw));
  const load = (error) => {
    if (!error.message.startsWith('NOSCRIPT')) throw error;
    return client.script('LOAD', readFileSync(file)).then(evalsha);
  };
  const said = await evalsha().catch(load).then(
    (reply) => ({ granted: reply[0] > 0, reply }),
    (error) => ({ error: error.message, kind: error.name === 'ReplyError' ? 'refused' : 'unknown' }),
  );
  console.log(JSON.stringify({ id, ...said }));
}).on('close', () => process.exit());
