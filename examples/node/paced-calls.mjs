// Paces calls to an API that allows 5 a second: each call books its permit ahead with one EVALSHA,
// sleeps once, and goes out. Any number of processes may share the key.
//
//   npm ci && node paced-calls.mjs redis://localhost:6379
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient, ErrorReply } from 'redis';

const scripts = new URL('../../scripts/', import.meta.url);
const client = await createClient({ url: process.argv[2] ?? 'redis://localhost:6379' }).connect();

// The server's SHA1 of the file is the one that sha1sum prints, whatever loaded it.
const source = await readFile(new URL('list_log_v1.lua', scripts), 'utf8');
const sha1 = await client.scriptLoad(source);

async function evalsha(keys, args) {
  const options = { keys, arguments: args.map(String) };
  try {
    return await client.evalSha(sha1, options);
  } catch (error) {
    if (!(error instanceof ErrorReply) || !error.message.startsWith('NOSCRIPT')) throw error;
    await client.scriptLoad(source); // the server has restarted, or flushed its scripts
    return client.evalSha(sha1, options);
  }
}

async function permit(subject) {
  const log = `sluice:payments:{${subject}}:ll1`; // %, { and } in a subject are written %25, %7B, %7D
  const [granted, , wait] = await evalsha([log], [5, 1_000_000, 1, 60_000_000]); // 5 a second, book up to 60 s ahead
  if (!granted) throw new Error(`the queue is full: try again in ${wait} us`);
  await sleep(Math.ceil(wait / 1000) + 1); // a timer of Node may fire 1 ms early
}

const start = Date.now();
await Promise.all(
  Array.from({ length: 8 }, async (_, call) => {
    await permit('acquirer-7');
    console.log(`call ${call} goes out in second ${Math.floor((Date.now() - start) / 1000)}`);
  }),
);
client.destroy();
