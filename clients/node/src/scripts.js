'use strict';

const { manifest, sources } = require('../scripts/index.js');
const { refuse, show } = require('./errors');

/** The scripts by name and version ("list_log_v1"), as the manifest describes them, each with its source. */
const scripts = new Map(
  manifest.scripts.map((script) => [
    `${script.name}_v${script.version}`,
    { ...script, id: `${script.name}_v${script.version}`, source: sources[script.file] },
  ]),
);

/** Returns the script of this name, or one that belongs to it: scriptOf('list_log_v1', 'return'). */
function scriptOf(name, companion) {
  const script = scripts.get(name);
  return companion ? scripts.get(script.companions[companion]) : script;
}

/** Returns what the manifest says of an argument: its range. */
function argumentOf(script, ...names) {
  const isNamed = (argument) => names.includes(argument.name);
  return script.arguments.find(isNamed) ?? script.group?.arguments.find(isNamed);
}

const words = { prefix: new RegExp(manifest.key.words.prefix), limiter: new RegExp(manifest.key.words.limiter) };

/** Throws an ArgumentError unless the name may stand in a key, as a prefix or a limiter. */
function checkName(kind, name, argument = kind) {
  if (typeof name === 'string' && words[kind].test(name)) return;
  const want = `letters, digits, dot, underscore${kind === 'limiter' ? ', dash and slash' : ' and dash'}, at least one`;
  throw refuse(undefined, argument, name, want);
}

/** Escapes what Redis Cluster reads in keys, as the manifest says. */
const escape = (text) =>
  /[%{}]/.test(text) ? text.replace(/[%{}]/g, (character) => manifest.key.escape[character]) : text;

/** Returns a key: <prefix>:<limiter>:{<subject>}:<state>[:<part>]... */
function redisKey(prefix, limiter, subject, state, parts = []) {
  checkName('prefix', prefix);
  checkName('limiter', limiter);
  checkName('prefix', state, 'state');
  checkStrings(limiter, 'parts', parts);
  return [`${prefix}:${limiter}:{${checkSubject(limiter, subject)}}:${state}`, ...parts.map(escape)].join(':');
}

/** Reports whether a value is text that has a form in UTF-8: a string without half a surrogate pair. */
const isText = (value) => typeof value === 'string' && value.isWellFormed();

function checkStrings(limiter, argument, values) {
  if (Array.isArray(values) && values.every(isText)) return;
  throw refuse(limiter, argument, values, 'an array of Unicode strings');
}

const maxSubjectBytes = 65536;

/** Returns a subject as it stands in keys. */
function checkSubject(limiter, subject) {
  const isShort = subject?.length * 3 <= maxSubjectBytes; // a character has up to 3 bytes
  const bytes = !isText(subject) ? 0 : isShort ? subject.length : Buffer.byteLength(subject);
  if (bytes > 0 && bytes <= maxSubjectBytes) return escape(subject);
  const shown = bytes > 0 ? `of ${bytes} bytes` : show(subject);
  const want = `a Unicode string of 1 to ${maxSubjectBytes} bytes`;
  throw refuse(limiter, 'subject', subject, want, `subject ${shown}: want ${want}`);
}

/** Returns the KEYS of a script. values has what stands for <id> and <client>; groups what stands for <slice>. */
function keysOf(script, { prefix, name }, subject, values, groups = []) {
  const start = `${prefix}:${name}:{${checkSubject(name, subject)}}:`; // they were checked when it was made
  const [{ state, parts }] = script.keys.length === 1 && !script.group ? script.keys : [{}];
  if (parts?.length === 0) return [start + state]; // most scripts have no more
  const keyOf = (key, named) => {
    if (key.parts.length === 0) return start + key.state;
    const fill = (part) => part.replace(/<([a-z]+)>/g, (_, word) => named[`${word}_i`] ?? named[word]);
    const parts = key.parts.map(fill);
    checkStrings(name, 'parts', parts);
    return [start + key.state, ...parts.map(escape)].join(':');
  };
  if (groups.length === 0) return script.keys.map((key) => keyOf(key, values));
  const repeated = groups.flatMap((group) => script.group.keys.map((key) => keyOf(key, group)));
  return [...repeated, ...script.keys.map((key) => keyOf(key, values))];
}

/** Returns the ARGV of a script from values by name; groups has those of the arguments that are repeated. */
function argsOf(script, values, groups = []) {
  const take = (named) => (argument) => word(script, argument, named[argument.name]);
  if (groups.length === 0) return script.arguments.map(take(values));
  return [...script.arguments.map(take(values)), ...groups.flatMap((group) => script.group.arguments.map(take(group)))];
}

/** Writes one argument: numbers are digits, never with a point or an exponent. */
function word(script, argument, value) {
  if (argument.type === 'str') return value;
  if (Number.isSafeInteger(value) && value >= 0) return String(value);
  throw refuse(script.id, argument.name, value, 'a whole number, 0 or more');
}

module.exports = {
  scripts, scriptOf, argumentOf, checkName, checkStrings, checkSubject, isText, redisKey, keysOf, argsOf,
};
