// The clients that the tests run with: process.env.CLIENT chooses one.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

/** Connects node-redis. */
function nodeRedis(name) {
  const { createClient, createCluster } = require(name);
  const close = (client) => (client.destroy ?? client.disconnect).call(client);
  const opened = async (client) => {
    client.on('error', () => {});
    await client.connect();
    return client;
  };
  return {
    single: ({ url, ...options }) => opened(createClient({ url, ...options })),
    cluster: (nodes, proxies) =>
      opened(createCluster({ rootNodes: [{ url: nodes[0].url }], nodeAddressMap: (address) => proxies?.[address] })),
    close: (client) => Promise.resolve(close(client)).catch(() => {}),
    resending: undefined, // it has no such option
  };
}

/** Connects ioredis or iovalkey. */
function ioredis(name) {
  const Redis = require(name);
  const opened = (client) => client.on('error', () => {});
  return {
    single: async ({ url, ...options }) =>
      opened(new Redis(url, { autoResendUnfulfilledCommands: false, ...options })),
    cluster: async ([{ port }], natMap, options) =>
      opened(new Redis.Cluster([{ host: '127.0.0.1', port }], { natMap, retryDelayOnFailover: 0, ...options })),
    close: async (client) => client.disconnect(),
    resending: { autoResendUnfulfilledCommands: true },
  };
}

const makers = { redis: nodeRedis, redis4: nodeRedis, ioredis, ioredis5: ioredis, iovalkey: ioredis };

export const name = process.env.CLIENT ?? 'redis';
export const client = makers[name](name);
export const isIORedis = makers[name] === ioredis;
export const packages = Object.keys(makers);

/** The name and version of a client's package: "ioredis 5.4.0". */
export function versionOf(which) {
  const found = require(`${which}/package.json`);
  return `${found.name} ${found.version}`;
}

/** Connects the chosen client, until the test ends. */
export async function open(t, url, options) {
  const connected = await client.single({ url, ...options });
  t.after(() => client.close(connected));
  return connected;
}

export async function openCluster(t, nodes, proxies, options) {
  const connected = await client.cluster(nodes, proxies, options);
  t.after(() => client.close(connected));
  return connected;
}
