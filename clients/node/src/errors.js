'use strict';

const { inspect } = require('node:util');

/** The base of all errors of this package, apart from the reason of a caller's own AbortSignal. See index.d.ts. */
class SluiceError extends Error {
  constructor(message, { cause, ...fields } = {}) {
    super(`sluice: ${message}`, cause === undefined ? undefined : { cause });
    Object.assign(this, fields);
  }

  get name() {
    return this.constructor.name;
  }
}

/** A class of errors, with a name that a bundler does not shorten. */
const kind = (name, Base) => Object.defineProperty(class extends Base {}, 'name', { value: name });
Object.defineProperty(SluiceError, 'name', { value: 'SluiceError' });
const ArgumentError = kind('ArgumentError', SluiceError);
const ExceedsLimitError = kind('ExceedsLimitError', ArgumentError);
const StateError = kind('StateError', SluiceError);
const OutcomeUnknownError = kind('OutcomeUnknownError', SluiceError);
const UnavailableError = kind('UnavailableError', SluiceError);
const NotLoadedError = kind('NotLoadedError', UnavailableError);
const WaitError = kind('WaitError', SluiceError);
const SlotLostError = kind('SlotLostError', SluiceError);
const NotReservedError = kind('NotReservedError', SluiceError);

/** Writes a value for an error: strings in quotes, and of what has a class only its name. A client has a password. */
function show(value) {
  if (typeof value === 'string') return JSON.stringify(value);
  const kind = isObject(value) ? value.constructor?.name : undefined;
  return !kind || kind === 'Object' || kind === 'Array' ? inspect(value, { depth: 0, breakLength: Infinity }) : kind;
}

const isObject = (value) => typeof value === 'object' && value !== null;

/** Returns the error of a wrong argument. limiter is its limiter, or the function that was called. */
function refuse(limiter, argument, value, want, text) {
  const message = text ?? `${argument} ${show(value)}: want ${want}`;
  const fields = { limiter, argument, value: isObject(value) ? show(value) : value, want };
  return new ArgumentError(limiter ? `${limiter}: ${message}` : message, fields);
}

const told = new Map(); // by limiter and outcome: when a warning was emitted, and how many were left out since

/** Tells operators what was not decided or done, the same once a minute at most, and without keys. */
function warn(name, outcome, error) {
  const about = `${name}: ${outcome}`;
  const last = told.get(about) ?? { time: -Infinity, more: 0 };
  if (told.size >= 1000) told.clear(); // names are few
  told.set(about, last);
  if (performance.now() - last.time < 60_000) return void last.more++;
  const why = error instanceof StateError ? `${error.script}: ${error.code}` : error.message.replace('sluice: ', '');
  const more = last.more > 0 ? ` (and ${last.more} more)` : '';
  Object.assign(last, { time: performance.now(), more: 0 });
  process.emitWarning(`${about}: ${why}${more}`, 'SluiceWarning');
}

/** Reports whether the server answered with an error: by its class, or by its code if a bundler has renamed that. */
function isReply(error) {
  if (/^-?[A-Z][A-Z]+ /.test(error?.message) && error.code === undefined) return true;
  for (let kind = error?.constructor; kind; kind = Object.getPrototypeOf(kind)) {
    if (kind.name === 'ErrorReply' || kind.name === 'ReplyError') return true;
  }
  return false;
}

/** Returns the code of an error reply, also where Redis 5 and 6 put it behind the name of the script. */
function codeOf(error) {
  const text = error.message.replace(/^ERR Error running script.*@user_script:[ :\d]*(@user_script:[ :\d]*)?-?/, '');
  return text.startsWith('ERR max number of clients') ? 'MAXCLIENTS' : text.split(' ', 1)[0];
}

const cures = [
  [/EPROTO|wrong version number|no answer to TLS/, 'if the port speaks no TLS, leave out tls (redis://)'],
  [/not ready.*(ECONNRESET|closed)/i, 'if the port speaks TLS, give the client tls (rediss://)'],
  [/cluster support disabled/, 'the server is no cluster: give Limits a client of a single server'],
  [/after non deterministic commands/, 'the scripts want Redis 5.0 or later'],
  [/OOM command/, 'raise maxmemory, or find out what fills the server'],
  [/NOPERM|can't run this command/, '"sluice acl" prints the rights that are needed'],
];

/** Returns the text of an error, with what to do about it. */
const cured = (text) => [text, ...cures.filter(([found]) => found.test(text)).map(([, cure]) => cure)].join('; ');

module.exports = {
  SluiceError, ArgumentError, ExceedsLimitError, StateError, OutcomeUnknownError, UnavailableError, NotLoadedError,
  WaitError, SlotLostError, NotReservedError, isReply, codeOf, refuse, show, warn, cured,
};
