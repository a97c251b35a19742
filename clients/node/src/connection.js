'use strict';

const { errorMonitor } = require('node:events');
const { Deadlines, Unsent } = require('./deadline');
const { ArgumentError, codeOf, cured, isReply } = require('./errors');

/**
 * Returns what sends commands through a client, without repeating them. end is the deadline of the call:
 *
 *     send(words, key, end)  sends a command to the node of the key
 *     nodeOf(slot)           the address of a cluster's node, as far as it is known
 *     load(source, end)      SCRIPT LOAD on every master
 */
function connect(client) {
  if (!connections.has(Object(client))) connections.set(Object(client), connectionOf(client));
  return connections.get(client);
}

const connections = new WeakMap(); // one for all Limits on a client, because it listens to the client's events

function connectionOf(client) {
  if (typeof client?.call === 'function' && typeof client.status === 'string') return new IORedis(client);
  if (typeof client?.sendCommand === 'function') return new NodeRedis(client);
  throw refused('want a client of node-redis, ioredis or iovalkey, or one of their clusters');
}

const refused = (want) => new ArgumentError(`client: ${want}`, { argument: 'client', want });

const longestSilence = 1000; // milliseconds without a reply, or of LOADING, until a duplicate is opened
const idle = 10; // milliseconds without a reply: the server may have closed the connection
const longestUnready = 250; // milliseconds without a connection, until a duplicate is opened
const reconnect = () => 50; // milliseconds after which a duplicate tries again: clients pause for up to 2 s
const [minBackOff, maxBackOff] = [1000, 60e3]; // milliseconds until the next duplicate
const closeAfter = 1000; // milliseconds, for the replies that are on their way

/**
 * What both kinds of clients have: a single client is waited for, because its queue may outlive the call. If calls time
 * out and no reply comes over its connection, commands go over a duplicate of it until a reply comes, or until it has
 * connected again; if replies say that it leads to the wrong place, only that. The client itself is left alone.
 */
class Connection {
  /** owner is the connection that this one is a duplicate of. */
  constructor(client, owner) {
    Object.assign(this, { client, deadlines: new Deadlines(), duplicate: undefined, failure: '' });
    this.owner = owner ?? this;
    this.unanswered = 0; // commands since the last reply
    Object.assign(this, { backOff: minBackOff, nextDuplicate: 0, lastReply: -Infinity, isMisled: false });
    this.unreadySince = undefined; // when a call first found it so
    client.on?.('ready', () => this.heard(Object.assign(this, { isMisled: false, failure: '' })));
    client.on?.('end', () => this.use(undefined));
    client.on?.(errorMonitor, (error) => (this.failure = textOf(error))); // it is no listener to 'error'
  }

  /** Sends a command, unless the call has to end before. */
  send(words, key, end) {
    const link = this.link();
    const isInUse = performance.now() - link.lastReply <= idle && link.isReady() && !end.signal; // it may abort at once
    return isInUse ? end.until(link.write(words, key, end), link) : this.sendOver(link, words, key, end);
  }

  /** Sends it as soon as the link is ready. */
  async sendOver(link, words, key, end) {
    const late = () => 'it was aborted before';
    end.queue(link);
    if (performance.now() - link.lastReply > idle) await end.before(link.look(), late);
    await link.ready(end);
    if (end.aborted) throw new Unsent(late());
    return end.until(link.write(words, key, end), link);
  }

  /** A reply has come over this connection. */
  replied() {
    this.unanswered = 0;
    this.owner.heard(this);
  }

  /** Returns what an error of the client says. */
  failed(error) {
    if (this.misleads(error)) this.owner.leave(this);
    else if (isReply(error)) this.replied();
    return this.hasNotRun(error) ? new Unsent(error.message, { cause: error }) : error;
  }

  /** Lets the event loop read that the server has closed the connection: it takes up to three turns. */
  look() {
    const turn = () => new Promise(setImmediate);
    this.looking ??= turn().then(turn).then(turn).finally(() => (this.looking = undefined));
    return this.looking;
  }

  /** Reports whether only another connection may get another reply. */
  misleads(error) {
    const code = isReply(error) ? codeOf(error) : '';
    if (code === 'MOVED' || tooManyRedirections.test(error?.message)) return this.isCluster; // to where it came from
    if (code !== 'LOADING') return misleading.includes(code);
    this.loadingSince ??= performance.now();
    return performance.now() - this.loadingSince >= longestSilence;
  }

  leave(link) {
    link.isMisled = true;
    if (link === (this.duplicate ?? this)) this.open();
  }

  /** Returns the connection that the next command goes over. */
  link() {
    if (this.duplicate?.isEnded()) this.use(undefined);
    const { silent, timedOut } = this.deadlines;
    const isSilent = timedOut && silent >= longestSilence && (this.duplicate || this.isReady());
    this.unreadySince = this.isReady() ? undefined : (this.unreadySince ?? performance.now());
    if ((isSilent || this.isUnready()) && !this.isCluster) this.open();
    return this.duplicate ?? this;
  }

  isUnready() {
    if (this.unreadySince === undefined || this.duplicate || this.isEnded()) return false;
    return performance.now() - this.unreadySince >= longestUnready;
  }

  /** Opens a duplicate. That of a cluster is used when it knows the nodes. */
  open() {
    const now = performance.now();
    if (now < this.nextDuplicate || !this.client.duplicate) return;
    this.nextDuplicate = now + this.backOff;
    this.backOff = Math.min(2 * this.backOff, maxBackOff);
    const client = (this.isCluster ? this.client.duplicate() : this.reconnecting()).on('error', () => {});
    const opened = Promise.resolve(client.connect()).catch(() => {}); // ioredis connects by itself
    if (this.isCluster) opened.then(() => this.use(new this.constructor(client, this)));
    else this.use(new this.constructor(client, this));
  }

  /** Sends over a duplicate from now on, or without one over the client. */
  use(duplicate) {
    const { client } = this.duplicate ?? {};
    const close = async () => (client.destroy ?? client.disconnect).call(client);
    if (client) setTimeout(() => close().catch(() => {}), closeAfter);
    this.duplicate = duplicate;
    clearInterval(this.watch); // a cluster of node-redis does not tell its end
    const closed = () => this.isEnded() && this.use(undefined);
    this.watch = duplicate && setInterval(closed, closeAfter).unref();
    this.deadlines.heard();
  }

  /** A reply has come over a connection. */
  heard(link) {
    link.lastReply = performance.now();
    link.loadingSince = undefined;
    if (link === this && this.duplicate && !this.isMisled) this.use(undefined);
    if (link !== (this.duplicate ?? this)) return;
    this.backOff = minBackOff;
    this.deadlines.heard();
  }

  /** Waits for a connection: what is in the queue of a client without one cannot be taken back. */
  async ready(end) {
    while (!this.isReady()) {
      if (this.isEnded()) throw new Unsent('the client is not open: connect() it first');
      const { tls, socket } = this.client.options ?? {};
      const why = () => this.failure || (tls || socket?.tls ? ': no answer to TLS' : '');
      await end.before(this.nextStatus(), () => cured(`the connection was not ready in time${why()}`));
    }
  }

  /** One pair of listeners for all who wait. */
  nextStatus() {
    this.changed ??= new Promise((resolve) => {
      const done = () => {
        this.client.off('ready', done).off('end', done);
        this.changed = undefined;
        resolve();
      };
      this.client.on('ready', done).on('end', done);
    });
    return this.changed;
  }
}

/** node-redis 4 and later. It does not repeat a command. */
class NodeRedis extends Connection {
  constructor(client, owner) {
    super(client, owner);
    if (client.options?.legacyMode) throw refused('want one without legacyMode');
    if (typeof client.getSentinelNode === 'function') throw refused('a sentinel client is not supported: ioredis is');
    this.isCluster = typeof client.nodeClient === 'function';
  }

  isReady() {
    return this.client.isReady ?? this.client.isOpen !== false; // clusters of version 4 and pools do not say
  }

  isEnded() {
    return !this.client.isOpen;
  }

  reconnecting() {
    return this.client.duplicate({ socket: { ...this.client.options?.socket, reconnectStrategy: reconnect } });
  }

  nodeOf(slot) {
    return this.client.slots?.[slot]?.master?.address;
  }

  hasNotRun(error) {
    return hasNotRun(error);
  }

  /** From version 5 on an abort drops what is not written yet. The signal of version 4 would say so of all commands. */
  write(words, key, abortSignal) {
    const args = this.isCluster ? [key, false, words] : [words];
    return this.client.sendCommand(...args, { abortSignal, timeout: undefined }); // in place of its own
  }

  async load(source, abortSignal) {
    const words = ['SCRIPT', 'LOAD', source];
    if (!this.isCluster) return this.send(words, undefined, abortSignal);
    const { client } = this.link();
    return eachMaster(client.masters, async (master) => {
      const node = await client.nodeClient(master);
      return node.sendCommand(words, { abortSignal });
    });
  }
}

/** Error replies of a server that is not the one that was meant, or that knows this connection no more. */
const misleading = ['READONLY', 'MASTERDOWN', 'NOAUTH', 'WRONGPASS'];

/** What clients of clusters say of a command that was only redirected. */
const tooManyRedirections = /^Too many Cluster redirections($|\. Last error: ReplyError: )/;

const neverWritten = [
  'AbortError', 'ClientClosedError', 'ClientOfflineError', 'TimeoutError', 'CommandTimeoutDuringMaintenanceError',
];

/** Reports whether an error proves that the command has not run. */
function hasNotRun(error) {
  return (
    neverWritten.includes(error?.constructor?.name) ||
    ['connect', 'getaddrinfo'].includes(error?.syscall) ||
    error?.message === 'The queue is full' || // commandsQueueMaxLength of node-redis
    tooManyRedirections.test(error?.message)
  );
}

/** ioredis and iovalkey. By default they send commands again whose replies were lost: such clients are refused. */
class IORedis extends Connection {
  constructor(client, owner) {
    super(client, owner);
    const { options } = client;
    this.isCluster = client.isCluster === true;
    if (options.keyPrefix) throw refused('want one without keyPrefix: Limits has the option prefix');
    if (this.isCluster) checkCluster(options);
    else checkSingle(options);
    // A client that does not send a command again forgets it when the connection is lost.
    if (!this.isCluster) client.on('close', () => this.owner.deadlines.lost(this));
  }

  /** The name is in small letters: in capitals ioredis before 6 finds no key, and asks any node. */
  write(words) {
    if (!this.isCluster && this.unanswered++ > 0) this.cork(this.client.stream);
    return this.client.call(...words);
  }

  hasNotRun(error) {
    return this.isCluster && hasNotRun(error);
  }

  /**
   * Of what is sent in one turn of the event loop, four commands go out in one write. One write for each would cost
   * more than all else in a call; one for all would leave the server idle while they are made. The first after a reply
   * does not wait for others.
   */
  cork(stream) {
    if (!stream) return;
    if (stream.writableCorked === 0) {
      stream.cork();
      process.nextTick(() => stream.uncork());
    } else if (this.unanswered % 4 === 0) {
      stream.uncork();
      stream.cork();
    }
  }

  async load(source, end) {
    if (!this.isCluster) return this.send(['SCRIPT', 'LOAD', source], undefined, end);
    return eachMaster(this.link().client.nodes('master'), (node) => node.call('SCRIPT', 'LOAD', source));
  }

  reconnecting() {
    return this.client.duplicate({ retryStrategy: reconnect });
  }

  nodeOf(slot) {
    return this.client.slots[slot]?.[0];
  }

  isReady() {
    if (this.client.status === 'wait') this.client.connect().catch(() => {});
    return this.client.status === 'ready';
  }

  isEnded() {
    const { status, manuallyClosing } = this.client;
    // After disconnect() while it reconnects, it never says 'end': a cluster stays 'disconnecting'.
    return status === 'end' || (['reconnecting', 'disconnecting'].includes(status) && manuallyClosing === true);
  }
}

function checkSingle(options) {
  if (!options.autoResendUnfulfilledCommands) return;
  throw refused(
    'it sends a command again whose reply was lost, and each time is charged: ' +
      'make it with { autoResendUnfulfilledCommands: false }, or pass client.duplicate() with that option',
  );
}

function checkCluster(options) {
  if (options.retryDelayOnFailover > 0) {
    throw refused(
      'the cluster sends a command again whose reply was lost, and each time is charged: ' +
        'make it with { retryDelayOnFailover: 0 }',
    );
  }
  if (options.clusterNodeRetryStrategy && options.redisOptions?.autoResendUnfulfilledCommands !== false) {
    throw refused('with clusterNodeRetryStrategy want { redisOptions: { autoResendUnfulfilledCommands: false } }');
  }
}

/** Calls load for every master. It is enough that one answers: the caller finds out whether it was the right one. */
async function eachMaster(masters, load) {
  const patience = new Promise((resolve) => setTimeout(resolve, longestLoad).unref());
  const loads = masters.map(async (master) => load(master));
  await Promise.race([Promise.allSettled(loads), patience]);
  return Promise.any(loads).catch((error) => {
    throw error.errors[0] ?? error;
  });
}

const longestLoad = 250; // milliseconds that a dead master delays the others

/** What a client says of its connection. Only the text: the error, and what Redis 5 repeats, may have the password. */
const textOf = (error) =>
  `: ${error?.lastNodeError?.message || error?.message || error?.code}`.replace(/,? with args beginning with.*/s, '');

module.exports = { connect };
