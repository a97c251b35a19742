/** A call as text for other programs. The names are those of the Go loader and of the packages for Python and Node. */
import { OURS } from './catalog.js';
import { parseDuration } from './format.js';

const KEY = /^[^:]+:(.+):\{(.*)\}:/; // <prefix>:<limiter>:{<subject>}:<state>
const NAMES = {
  list_log: ['ListLog', 'listLog'], zset_log: ['ZSetLog', 'zsetLog'], gcra: ['GCRA', 'gcra'],
  token_bucket: ['TokenBucket', 'tokenBucket'], slice_ring: ['SliceRing', 'sliceRing'],
};

/** What a lane's call can be copied as. @returns {string[]} */
export const languages = (lane) => (OURS.includes(lane.id) ? ['redis-cli', 'Go', 'Python', 'Node'] : ['redis-cli']);

/** @param {string} language @param {any} lane @param {any} call the engine's detail of it */
export function copyAs(language, lane, call) {
  if (language === 'redis-cli') return OURS.includes(lane.id) ? evalsha(lane, call) : evaluate(lane, call);
  return { Go: go, Python: python, Node: node }[language](terms(lane, call));
}

const text = JSON.stringify;
const quoted = (word) => (/^[\w./:@-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
const words = ({ keys, args }) => [keys.length, ...keys, ...(args ?? []).map(({ value }) => value)].map(String).map(quoted).join(' ');

function evalsha(lane, call) {
  return `redis-cli -x SCRIPT LOAD < ${lane.file}\nredis-cli EVALSHA ${call.sha1} ${words(call)}\n`;
}

function evaluate(lane, call) {
  return `redis-cli EVAL "$(cat <<'LUA'\n${lane.source.trimEnd()}\nLUA\n)" ${words(call)}\n`;
}

/** The call in the terms of a loader: limiter, subject, limits and so on. */
function terms(lane, { keys, args }) {
  const argument = Object.fromEntries(args.map(({ name, value }) => [name, value]));
  const [, name, subject] = KEY.exec(keys[0]) ?? [null, 'play', keys[0]];
  const limit = { permits: Number(argument.limit ?? argument.rate), window: Number(argument.window ?? argument.interval) };
  const ring = lane.id === 'slice_ring';
  return {
    names: NAMES[lane.id], kind: lane.id, name,
    subject: subject.replace(/%(25|7B|7D)/g, (code) => decodeURIComponent(code)),
    limits: ring ? lane.promise.map(({ permits, window }) => ({ permits, window: micros(window) })) : [limit],
    burst: lane.id === 'gcra' && argument.burst !== argument.limit ? Number(argument.burst) : 0,
    slice: ring ? Number(argument.slice) : 0,
    permits: Number(argument.permits), ahead: Number(argument.max_wait ?? 0),
  };
}

const micros = (window) => (typeof window === 'number' ? window : parseDuration(window));

/** Reports whether a ring has the slices that the packages take by themselves. */
function usualSlice({ limits, slice }) {
  const windows = limits.map(({ window }) => window);
  return slice === Math.ceil(Math.max(Math.min(...windows) / 60, Math.max(...windows) / 9999));
}

function go(t) {
  const unit = [[3600e6, 'time.Hour'], [60e6, 'time.Minute'], [1e6, 'time.Second'], [1e3, 'time.Millisecond'], [1, 'time.Microsecond']];
  const time = (us) => {
    const [size, word] = unit.find(([size]) => us % size === 0);
    return us === size ? word : `${us / size}*${word}`;
  };
  const one = ({ permits, window }) => `{Permits: ${permits}, Window: ${time(window)}${t.burst ? `, Burst: ${t.burst}` : ''}}`;
  const limit = t.slice ? `[]loader.Limit{${t.limits.map(one).join(', ')}}` : `loader.Limit${one(t.limits[0])}`;
  const options = t.ahead ? `, loader.MaxWait(${time(t.ahead)})` : t.slice && !usualSlice(t) ? `, loader.Slice(${time(t.slice)})` : '';
  const made = `limits := loader.New(rdb) // github.com/sluice-redis/sluice/loader
limiter := limits.${t.names[0]}(${text(t.name)}, ${limit}${options})
`;
  if (t.ahead) return `${made}booking, err := limiter.ReserveN(ctx, ${text(t.subject)}, ${t.permits}) // booking.OK(), booking.Wait(ctx)\n`;
  return `${made}d, err := limiter.AllowN(ctx, ${text(t.subject)}, ${t.permits}) // d.Granted, d.Remaining, d.Wait\n`;
}

function python(t) {
  const time = (us) => `timedelta(${us % 1e6 === 0 ? `seconds=${us / 1e6}` : us % 1e3 === 0 ? `milliseconds=${us / 1e3}` : `microseconds=${us}`})`;
  const [{ permits, window }] = t.limits;
  const windows = `[${t.limits.map((limit) => `Limit(${limit.permits}, ${time(limit.window)})`).join(', ')}]`;
  const limit = t.slice ? windows : `permits=${permits}, window=${time(window)}`;
  const extra = (t.burst ? `, burst=${t.burst}` : '') + (t.slice && !usualSlice(t) ? `, slice=${time(t.slice)}` : '');
  const asked = t.ahead
    ? `booking = limiter.reserve(${text(t.subject)}, ${t.permits}, max_wait=${time(t.ahead)})\nprint(booking.delay)`
    : `decision = limiter.allow_n(${text(t.subject)}, ${t.permits})\nprint(decision.granted, decision.remaining, decision.wait)`;
  return `from datetime import timedelta

import redis
from sluice_redis import ${t.slice ? 'Limit, ' : ''}Limits

limiter = Limits(redis.Redis()).${t.kind}(${text(t.name)}, ${limit}${extra})
${asked}
`;
}

function node(t) {
  const one = ({ permits, window }) => `permits: ${permits}, window: ${window / 1e3}`;
  const windows = `windows: [${t.limits.map((limit) => `{ ${one(limit)} }`).join(', ')}]`;
  const extra = (t.burst ? `, burst: ${t.burst}` : '') + (t.slice && !usualSlice(t) ? `, slice: ${t.slice / 1e3}` : '');
  const options = `{ ${t.slice ? windows : one(t.limits[0])}${extra} }`;
  const asked = t.ahead
    ? `const booking = await limiter.reserve(${text(t.subject)}, { n: ${t.permits}, maxWait: ${t.ahead / 1e3} });\nconsole.log(booking.ok, booking.delay);`
    : `const decision = await limiter.allowN(${text(t.subject)}, ${t.permits});\nconsole.log(decision.granted, decision.remaining, decision.wait);`;
  return `import { createClient } from 'redis';
import { Limits } from 'sluice-redis';

const client = createClient();
await client.connect();
const limiter = new Limits(client).${t.names[1]}(${text(t.name)}, ${options}); // milliseconds
${asked}
`;
}
