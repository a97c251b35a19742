// Redis servers for tests, on free ports, each stopped by its process id; and a proxy that loses replies.
import { execFileSync, spawn } from 'node:child_process';
import { appendFileSync, mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

const binary = process.env.REDIS_SERVER ?? 'redis-server';

/** Waits until the condition holds, for 15 s at most. */
export async function until(what, condition) {
  for (const end = Date.now() + 15000; Date.now() < end; await pause(10)) {
    if (await condition()) return;
  }
  throw new Error(`${what}: not within 15 s`);
}

/** Notes one thing that was shown: a trap that was met, the vectors that passed, the audit. */
export function report(what, text) {
  if (process.env.REPORT) appendFileSync(process.env.REPORT, `${JSON.stringify([what, text])}\n`);
}

export const succeeds = (promise) => promise.then(() => true, () => false);

export function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Starts a server. t ends it: a test's context, or anything with after(). */
export async function startRedis(t, ...args) {
  let port = await freePort();
  while (port > 55000) port = await freePort(); // a node of a cluster has port + 10000 as well
  const dir = mkdtempSync(join(tmpdir(), 'sluice-node-'));
  const options = ['--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no', '--dir', dir, ...args];
  const child = spawn(binary, options.map(String), { stdio: 'ignore' });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  t.after(async () => {
    child.kill('SIGCONT');
    child.kill('SIGKILL');
    await ended;
    rmSync(dir, { recursive: true, force: true });
  });
  const server = { port, url: `redis://127.0.0.1:${port}`, child, cli: (...words) => cli(port, words) };
  await until(`redis-server on port ${port}`, () => answers(server));
  return server;
}

function answers(server) {
  try {
    return server.cli('PING') === 'PONG';
  } catch {
    return false;
  }
}

/** Runs redis-cli and returns what it prints. */
function cli(port, words) {
  const args = ['-p', String(port), ...words.map(String)];
  const options = { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'], timeout: 20000 };
  return execFileSync('redis-cli', args, options).trim();
}

/** Starts a cluster of three masters. */
export async function startCluster(t) {
  const args = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'];
  const nodes = await Promise.all([1, 2, 3].map(() => startRedis(t, ...args)));
  nodes.forEach((node, i) => node.cli('CLUSTER', 'ADDSLOTSRANGE', ...[[0, 5460], [5461, 10922], [10923, 16383]][i]));
  const whole = (node) => /cluster_state:ok[\s\S]*cluster_known_nodes:3/.test(node.cli('CLUSTER', 'INFO'));
  await until('the cluster', async () => {
    if (nodes.every(whole)) return true;
    // Again and again, because a server forgets a handshake that takes longer than its node timeout.
    for (const { port } of nodes.slice(1)) nodes[0].cli('CLUSTER', 'MEET', '127.0.0.1', port);
    return pause(500);
  });
  return nodes;
}

/**
 * Starts a proxy before a server. lose(word): the next command with this word in it is passed on and runs, its reply is
 * not passed on, and the connection is closed; an error reply is passed on, and the word stays. commands is what has
 * been sent through it, as it was written. hold() keeps back the replies on all connections that are open now, until
 * release(). pipes is the open connections. New connections lead to target.
 */
export async function startProxy(t, port) {
  const proxy = { target: port, lost: 0, commands: [], word: undefined, pipes: new Set() };
  proxy.lose = (word) => (proxy.word = word);
  proxy.hold = () => proxy.pipes.forEach((pipe) => (pipe.held = []));
  proxy.release = () => proxy.pipes.forEach((pipe) => {
    pipe.held?.forEach((data) => pipe.down.write(data));
    pipe.held = undefined;
  });
  const sockets = new Set();
  const server = net.createServer((down) => {
    const up = net.connect(proxy.target, '127.0.0.1');
    const pipe = { down };
    proxy.pipes.add(pipe);
    down.on('close', () => proxy.pipes.delete(pipe));
    let swallowed; // the replies since the word was seen
    for (const socket of [down, up]) {
      sockets.add(socket);
      socket.on('error', () => {}).on('close', () => (down.destroy(), up.destroy(), sockets.delete(socket)));
    }
    down.on('data', (data) => {
      proxy.commands.push(data.toString('latin1'));
      if (proxy.word && data.toString('latin1').toUpperCase().includes(proxy.word)) {
        swallowed = { word: proxy.word, text: '' };
        proxy.word = undefined;
      }
      up.write(data);
      if (swallowed) up.write('PING the-end\r\n'); // it is answered when the command has run
    });
    up.on('data', (data) => {
      if (pipe.held) return pipe.held.push(data);
      if (!swallowed) return down.write(data);
      swallowed.text += data.toString('latin1');
      const [replies, end] = swallowed.text.split(/(?:\$7\r\n|\+)the-end\r\n/);
      if (end === undefined) return undefined;
      if (replies.startsWith('-')) {
        // it has not run: MOVED, NOSCRIPT
        proxy.word = swallowed.word;
        swallowed = undefined;
        return down.write(Buffer.from(replies, 'latin1'));
      }
      proxy.lost++;
      return down.destroy();
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return Object.assign(proxy, { port: server.address().port, url: `redis://127.0.0.1:${server.address().port}` });
}
