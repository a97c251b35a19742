'use strict';

const { UnavailableError, codeOf, cured, isReply } = require('./errors');

/** What a server says to everybody. */
const toAll = ['LOADING', 'BUSY', 'CLUSTERDOWN', 'MASTERDOWN', 'MAXCLIENTS'];

/**
 * Knows for how long a server has answered nobody. If that is longer than a call may take, and so many calls have
 * failed, calls are not sent, except for one at a time, pause milliseconds after the one before.
 */
class Breaker {
  constructor({ failures, pause }) {
    Object.assign(this, { most: failures, pause, inFlight: 0, probing: 0 });
    Object.assign(this, { failures: 0, silent: 0, failed: 0, why: '' }); // since the last answer
  }

  /** Counts a call that begins, or throws. */
  admit(timeout) {
    const now = performance.now();
    const isOpen = this.failures >= this.most && now - this.silent >= timeout;
    if (isOpen && (this.probing || now - this.failed < this.pause)) {
      const silent = `Redis has not answered for ${Math.round(now - this.silent)} ms`;
      throw new UnavailableError(`breaker is open: ${silent}; the last failure: ${this.why}`);
    }
    if (this.inFlight === 0 && this.failures === 0) this.silent = now;
    this.inFlight += 1;
    this.probing = isOpen ? now : 0;
  }

  /** Takes how a call has ended: with an error of the client, or without one. */
  report(error) {
    const failed = this.probing || performance.now();
    this.leave();
    if (!error || (isReply(error) && !toAll.includes(codeOf(error)))) {
      this.failures = 0;
      this.silent = performance.now();
    } else {
      Object.assign(this, { failures: this.failures + 1, failed, why: cured(error.message) });
    }
  }

  /** The caller has ended a call: that tells nothing about the server. */
  leave() {
    this.inFlight -= 1;
    this.probing = 0;
  }
}

/** The breakers of the nodes that a connection leads to. */
class Breakers {
  constructor(options, connection) {
    Object.assign(this, { options, connection, nodes: new Map() });
  }

  /** Returns the breaker of the node of a key. */
  of(key) {
    const node = this.connection.isCluster ? this.connection.nodeOf(slotOf(key)) : undefined;
    if (this.nodes.has(node)) return this.nodes.get(node);
    const since = performance.now() - this.options.pause - 60e3; // nodes come and go: unused breakers are forgotten
    for (const [old, { inFlight, failed }] of this.nodes) if (!inFlight && failed <= since) this.nodes.delete(old);
    return this.nodes.set(node, new Breaker(this.options)).get(node);
  }
}

/** The slot of a key, all of which have a hash tag: CRC-16/XMODEM, as the specification of Redis Cluster has it. */
function slotOf(key) {
  let crc = 0;
  for (const byte of Buffer.from(key.slice(key.indexOf('{') + 1, key.indexOf('}')))) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  }
  return crc & 0x3fff;
}

module.exports = { Breakers };
