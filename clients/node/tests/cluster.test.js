// The same in a cluster of three masters.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Limits } from 'sluice-redis';
import { isIORedis, name, open, openCluster } from './clients.js';
import { report, startCluster, startProxy, startRedis, succeeds, until } from './servers.js';

const perHour = { permits: 100, window: '1h' };
const subjects = Array.from({ length: 12 }, (_, i) => `subject-${i}`); // on all three

/** A cluster whose nodes are reached through proxies. */
async function proxied(t, nodes) {
  const proxies = await Promise.all(nodes.map((node) => startProxy(t, node.port)));
  const entry = (node, i) => [`127.0.0.1:${node.port}`, { host: '127.0.0.1', port: proxies[i].port }];
  return { proxies, map: Object.fromEntries(nodes.map(entry)) };
}

test('a cluster', async (t) => {
  const nodes = await startCluster(t);
  const { proxies, map } = await proxied(t, nodes);
  const limits = new Limits(await openCluster(t, nodes, map), { timeout: '10s' });
  const looker = new Limits(await openCluster(t, nodes), { timeout: '10s' });

  await t.test('NOSCRIPT on every node', async () => {
    const log = limits.listLog('noscript', perHour);
    for (let round = 1; round <= 2; round++) {
      const decisions = await Promise.all(subjects.map((subject) => log.allow(subject)));
      assert.ok(decisions.every(({ granted, remaining }) => granted && remaining === 100 - round));
      for (const node of nodes) node.cli('SCRIPT', 'FLUSH');
    }
    const bucket = limits.tokenBucket('three-keys', perHour);
    assert.equal((await bucket.allow('{ada}%')).remaining, 99);
    await bucket.reset('{ada}%');
    assert.equal((await bucket.peek('{ada}%')).remaining, 100);
    assert.ok(!/\$4\r\nEVAL\r\n/i.test(proxies.map((proxy) => proxy.commands.join('')).join('')), 'EVAL was sent');
    report('trap', 'NOSCRIPT in a cluster');
  });

  await t.test('a lost reply: charged once', async () => {
    const log = limits.listLog('lost', perHour);
    await log.allow('ada');
    for (const proxy of proxies) proxy.lose('EVALSHA');
    await assert.rejects(log.allow('ada'), { name: 'OutcomeUnknownError' });
    for (const proxy of proxies) proxy.lose(undefined);
    assert.equal(proxies.reduce((sum, proxy) => sum + proxy.lost, 0), 1);
    await until('the cluster answers', () => succeeds(log.peek('ada')));
    assert.equal((await looker.listLog('lost', perHour).peek('ada')).remaining, 98);
    report('trap', 'lost reply in a cluster');
  });

  await t.test('a slot that moves', async () => {
    const log = limits.listLog('moves', perHour);
    await log.allow('mover');
    const slot = nodes[0].cli('CLUSTER', 'KEYSLOT', '{mover}');
    const owner = nodes.find((node) => Number(node.cli('CLUSTER', 'COUNTKEYSINSLOT', slot)) > 0);
    const target = nodes.find((node) => node !== owner);
    const [from, to] = [owner, target].map((node) => node.cli('CLUSTER', 'MYID'));
    target.cli('SCRIPT', 'FLUSH');
    target.cli('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from);
    owner.cli('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to);
    owner.cli('MIGRATE', '127.0.0.1', target.port, 'sluice:moves:{mover}:ll1', '0', '5000');
    assert.equal((await log.allow('mover')).remaining, 98, 'by ASK');
    for (const node of [target, owner]) node.cli('CLUSTER', 'SETSLOT', slot, 'NODE', to);
    assert.equal((await log.allow('mover')).remaining, 97, 'by MOVED');
  });

  await t.test('MOVED to where it came from: calls go over new connections', async () => {
    const [{ port }, other] = nodes;
    const fake = await startProxy(t, port);
    const map = { [`127.0.0.1:${port}`]: { host: '127.0.0.1', port: fake.port } };
    fake.target = other.port; // this address leads to another node
    const log = new Limits(await openCluster(t, nodes, map), { timeout: '10s' }).listLog('moved', perHour);
    const subject = subjects.find((each) => nodes[0].cli('EXISTS', `sluice:noscript:{${each}}:ll1`) === '1');
    await assert.rejects(log.allow(subject), { name: 'UnavailableError' });
    fake.target = port;
    await until('it is granted', () => succeeds(log.allow(subject)));
  });

  await t.test('a single client, and a cluster client of one server: the errors say so', async () => {
    const log = new Limits(await open(t, nodes[0].url), { timeout: '10s' }).listLog('single', perHour);
    const outcomes = await Promise.allSettled(subjects.map((subject) => log.allow(subject)));
    const { reason } = outcomes.find(({ status }) => status === 'rejected');
    assert.match(String(reason), /UnavailableError.*MOVED.*; the server is a node of a cluster: give Limits/);
    if (!isIORedis) return; // node-redis itself does not connect
    const single = await openCluster(t, [await startRedis(t)]);
    const alone = new Limits(single, { timeout: 300 }).listLog('single', perHour);
    await assert.rejects(alone.allow('ada'), { name: 'UnavailableError', message: /; the server is no cluster: give/ });
  });

  await t.test('a client that is not open', async () => {
    const client = isIORedis ? await openCluster(t, [{ port: 1 }]) : (await openCluster(t, nodes)).duplicate();
    if (isIORedis) {
      await until('it reconnects', () => client.status === 'reconnecting');
      client.disconnect();
    }
    const log = new Limits(client, { timeout: '10s' }).listLog('x', perHour);
    const message = /: the client is not open: connect\(\) it first$/;
    await assert.rejects(log.allow('ada'), { name: 'UnavailableError', message });
  });

  await t.test('a burst is no outage', async () => {
    const bursting = new Limits(await openCluster(t, nodes), { timeout: 400, onFailure: 'open' });
    const log = bursting.listLog('burst', { permits: 10, window: '1h' });
    const decisions = await Promise.all(Array.from({ length: 20000 }, (_, i) => log.allow(subjects[i % 12])));
    assert.equal(decisions.filter((decision) => decision.granted).length, 120);
    report('trap', 'bursts in a cluster');
  });

  await t.test('a node that stands still while the others answer: the call ends', async () => {
    const hasty = new Limits(await openCluster(t, nodes), { timeout: 200 }).listLog('silent', perHour);
    const [down] = nodes;
    const isDown = (subject) => down.cli('EXISTS', `sluice:noscript:{${subject}}:ll1`) === '1';
    const [waits] = subjects.filter(isDown);
    const others = subjects.filter((subject) => !isDown(subject));
    const answers = async () => (await Promise.allSettled(subjects.map((subject) => hasty.allow(subject))))
      .every(({ status }) => status === 'fulfilled');
    await until('the cluster answers', answers);
    down.child.kill('SIGSTOP');
    let outcome;
    hasty.allow(waits).catch((error) => (outcome = error));
    for (const end = Date.now() + 1500; !outcome && Date.now() < end; await pause(5)) {
      await Promise.allSettled(others.map((subject) => hasty.peek(subject)));
    }
    let open;
    for (const end = Date.now() + 5000; !open && Date.now() < end; ) {
      await hasty.peek(waits).catch(({ message }) => (open = /is open: Redis has not answered for \d+ ms; /.test(message)));
    }
    const answered = await Promise.allSettled(others.map((subject) => hasty.peek(subject)));
    down.child.kill('SIGCONT');
    assert.equal(outcome?.name, 'OutcomeUnknownError');
    assert.ok(open, 'the breaker of the node is open');
    assert.ok(answered.every(({ status }) => status === 'fulfilled'), 'the other nodes are asked');
  });

  await t.test('a cluster client that sends a command again is refused', { skip: !isIORedis }, async () => {
    const resending = await openCluster(t, nodes, map, { retryDelayOnFailover: 100, retryDelayOnMoved: 50 });
    assert.throws(() => new Limits(resending), { name: 'ArgumentError', message: /retryDelayOnFailover: 0/ });
    const sha1 = nodes.map((node) => node.cli('SCRIPT', 'LOAD', "return redis.call('INCR', KEYS[1])"))[0];
    const count = () => resending.call('EVALSHA', sha1, 1, 'sluice:x:{resent}:count');
    await count();
    const lost = () => proxies.reduce((sum, proxy) => sum + proxy.lost, 0);
    const before = lost();
    for (const proxy of proxies) proxy.lose('EVALSHA');
    assert.ok((await count()) >= 3, 'ran three times for two calls');
    for (const proxy of proxies) proxy.lose(undefined);
    assert.ok(lost() > before);
    report('trap', 'cluster resends by default: refused');

    if (name !== 'ioredis') return;
    const retrying = await openCluster(t, nodes, map, { clusterNodeRetryStrategy: () => 50 });
    assert.throws(() => new Limits(retrying), { message: /clusterNodeRetryStrategy/ });
  });
});
