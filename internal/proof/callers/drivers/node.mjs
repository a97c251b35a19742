import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Limits, OutcomeUnknownError } from 'sluice-redis';

const { SLUICE_REDIS: url, CLIENT } = process.env;
async function connect() {
  if (CLIENT === 'ioredis') {
    const { Redis } = await import('ioredis');
    return new Redis(url, { autoResendUnfulfilledCommands: false }).on('error', () => {});
  }
  const { createClient } = await import('redis');
  const client = createClient({ url }).on('error', () => {}); // without a listener, a lost connection ends the process
  client.connect().catch(() => {});
  return client;
}
const { caller } = new Limits(await connect()); // the package's own call of a script, below its limiters
const raw = (hex) => Buffer.from(hex, 'hex');

createInterface({ input: process.stdin }).on('line', async (line) => {
  const { id, script, sha1, file, keys, args } = JSON.parse(line);
  const source = { id: script, sha1, file, source: readFileSync(file, 'utf8') };
  const said = await caller.run(source, keys.map(raw), args.map(raw), { timeout: 1000 }).then(
    (reply) => ({ granted: reply[0] > 0, reply }),
    (error) => {
      const isReply = /^[A-Z]+ /.test(error.cause?.message);
      const kind = error instanceof OutcomeUnknownError ? 'unknown' : isReply ? 'refused' : 'not sent';
      return { error: error.cause?.message ?? error.message, kind };
    },
  );
  console.log(JSON.stringify({ id, ...said }));
}).on('close', () => process.exit());
