// Decides for so many subjects, as user sluice-use: rights.mjs redis|ioredis single|cluster HOST:PORT SHA1 SUBJECTS
import { createClient, createCluster } from 'redis';
import { Cluster, Redis } from 'ioredis';

const [library, kind, address, sha1, subjects] = process.argv.slice(2);
const [host, port] = address.split(':');
const user = { username: 'sluice-use', password: 'toothpaste' };

function clientOf() {
  if (library === 'ioredis') {
    if (kind === 'cluster') return new Cluster([{ host, port }], { redisOptions: user });
    return new Redis({ host, port, ...user });
  }
  const root = { url: `redis://${address}` };
  return kind === 'cluster' ? createCluster({ rootNodes: [root], defaults: user }) : createClient({ ...root, ...user });
}

const client = clientOf();
client.on('error', (error) => {
  console.error(error);
  process.exit(1);
});
if (library === 'redis') await client.connect();
let granted = 0;
for (let i = 0; i < subjects; i++) {
  const key = `sluice:codes:{s${i}}:ll1`;
  const args = ['3', '60000000', '1', '0'];
  const reply = library === 'redis'
    ? await client.evalSha(sha1, { keys: [key], arguments: args })
    : await client.evalsha(sha1, 1, key, ...args);
  granted += reply[0];
}
console.log(granted);
process.exit(0);
