'use strict';

const { isIP } = require('node:net');
const { ArgumentError, refuse, show, warn } = require('./errors');
const { checkOptions, integer } = require('./options');
const { checkStrings } = require('./scripts');

/**
 * Counts by the address of the client, of IPv6 by its first ipv6Prefix bits. trustedProxies names those that append to
 * X-Forwarded-For: prefixes, addresses, or "unix" for Unix sockets. hops says how many proxies there are instead.
 */
function keyByIP(options = {}) {
  checkOptions('keyByIP', 'keyByIP', options, ['trustedProxies', 'ipv6Prefix', 'hops']);
  const { trustedProxies = [], ipv6Prefix = 64, hops: count = 0 } = options;
  checkStrings('keyByIP', 'trustedProxies', trustedProxies);
  integer('keyByIP', 'ipv6Prefix', ipv6Prefix, 1, 128);
  integer('keyByIP', 'hops', count, 0, Infinity);
  if (count && trustedProxies.length > 0) throw refuse('keyByIP', 'hops', count, 'hops or trustedProxies, not both');
  const prefixes = trustedProxies.filter((proxy) => proxy !== 'unix').map(parsePrefix);
  if (prefixes.some(({ length }) => length === 0)) {
    const why = new Error('who calls writes what they like: name the proxies');
    warn('keyByIP', 'trustedProxies has all addresses', why);
  }
  const trusts = (address) => prefixes.some((prefix) => prefix.holds(address));
  return (request, socket = request.socket) => {
    const peer = socket?.remoteAddress ?? '';
    let address = withoutPort(peer);
    const hops = request.headers['x-forwarded-for']?.split(',').map(trim) ?? [];
    if (count > 0 && count <= hops.length) address = withoutPort(hops.at(-count)) ?? address;
    const unix = /^(?:$|@|\/|unix:)/.test(peer) && !socket?.destroyed; // one that was closed has no address either
    let proxy = address === undefined ? unix && trustedProxies.includes('unix') : trusts(address);
    while (proxy && hops.length > 0) {
      const hop = hops.pop();
      if (hop.toLowerCase() === 'unknown') break; // counted for the proxy that wrote it
      address = withoutPort(hop);
      proxy = address !== undefined && trusts(address);
      if (address === undefined) return '';
    }
    if (address === undefined && !socket?.destroyed) throw new NoPeer(peer);
    return address === undefined ? '' : addressText(address, BigInt(128 - ipv6Prefix));
  };
}

/** Returns an element of a header without the white space around it. */
const trim = (text) => /^[ \t]*((?:[^ \t].*)?[^ \t]|)/s.exec(text)[1];

/** The server does not say from where a request comes, or names a proxy that does not. */
class NoPeer extends ArgumentError {
  constructor(peer) {
    const want = 'an address; give a key of your own, or trust "unix" if a proxy calls by a Unix socket';
    super(`keyByIP: peer ${show(peer)}: want ${want}`, { limiter: 'keyByIP', argument: 'peer', value: peer, want });
  }
}

// An address is a number of 128 bits: IPv4 is the IPv6 address ::ffff:192.0.2.7.
const isIPv4 = (address) => address >> 32n === 0xffffn;

/** Parses an address without a port. A zone is left out. Returns undefined if it is none. */
function parseAddress(text) {
  const [host, ...zone] = text.split('%');
  const family = isIP(host);
  if (family === 0 || (zone.length > 0 && (family === 4 || zone.join('%') === ''))) return undefined;
  const [left, right] = shortForm(family === 4 ? `::ffff:${host}` : host)
    .split('::')
    .map((part) => part.split(':').filter(Boolean));
  const groups = right ? [...left, ...Array(8 - left.length - right.length).fill('0'), ...right] : left;
  return groups.reduce((address, group) => (address << 16n) | BigInt(`0x${group}`), 0n);
}

/** Writes IPv6 in its short form, in hexadecimal. */
const shortForm = (address) => new URL(`http://[${address}]`).hostname.slice(1, -1);

/** Writes an address; of IPv6 a prefix, without so many bits. */
function addressText(address, rest) {
  if (isIPv4(address)) return [24n, 16n, 8n, 0n].map((shift) => (address >> shift) & 255n).join('.');
  const digits = ((address >> rest) << rest).toString(16).padStart(32, '0');
  return shortForm(digits.match(/.{4}/g).join(':')) + (rest > 0n ? `/${128n - rest}` : '');
}

/** Parses 192.0.2.7:80, [2001:db8::7]:80, [2001:db8::7], or an address without a port. */
function withoutPort(text) {
  const [, bracketed, other, port = 0] = /^(?:\[(.*)\]|([^:[\]]*))(?::(\d+))?$/.exec(text) ?? [];
  if (Number(port) > 65535 || (bracketed && isIP(bracketed) === 4)) return undefined;
  return parseAddress(bracketed ?? other ?? text);
}

function parsePrefix(proxy) {
  const [host, bits] = proxy.split('/');
  const [address, longest] = [parseAddress(host), isIP(host) === 4 ? 32 : 128];
  const length = bits === undefined ? longest : /^\d{1,3}$/.test(bits) ? Number(bits) : NaN;
  if (address === undefined || !(length <= longest)) {
    throw refuse('keyByIP', 'trustedProxies', proxy, 'a prefix ("10.0.0.0/8"), an address or "unix"');
  }
  const rest = BigInt(longest - length);
  const ofIPv4 = rest <= 32n && isIPv4(address);
  return { length, holds: (other) => isIPv4(other) === ofIPv4 && other >> rest === address >> rest };
}

module.exports = { NoPeer, keyByIP };
