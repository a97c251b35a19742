/** A call as text for other programs. The names are those of the Go loader and of the packages for Python and Node. */
import { OURS } from './catalog.js';

const RINGS = ['slice_ring', 'budget'];
const KEY = /^[^:]+:(.+):\{(.*)\}:/; // <prefix>:<limiter>:{<subject>}:<state>
const NAMES = {
  budget: ['Budget', 'budget'],
  concurrency: ['Concurrency', 'concurrency'],
  list_log: ['ListLog', 'listLog'],
  zset_log: ['ZSetLog', 'zsetLog'],
  gcra: ['GCRA', 'gcra'],
  token_bucket: ['TokenBucket', 'tokenBucket'],
  slice_ring: ['SliceRing', 'sliceRing'],
};

/** What a lane's call can be copied as. @returns {string[]} */
export const languages = (lane, call) => {
  if (!call.keys.length) return []; // nothing was sent
  const isOurs = OURS.includes(lane.id) && !call.second && !isTheirs(call);
  return isOurs && lane.id !== 'quota' ? ['redis-cli', 'Go', 'Python', 'Node'] : ['redis-cli'];
};

/** Loaders renew and report by themselves. */
const isTheirs = ({ process, args }) => process || args.some(({ name, value }) => name === 'renew' && value === '1');

/** @param {string} language @param {any} lane @param {any} call the engine's detail of it */
export function copyAs(language, lane, call) {
  if (language === 'redis-cli') return OURS.includes(lane.id) ? evalsha(lane, call) : evaluate(lane, call);
  return { Go: go, Python: python, Node: node }[language](terms(lane, call));
}

const text = JSON.stringify;
const quoted = (word) => (/^[\w./:@-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
const words = ({ keys, args }) =>
  [keys.length, ...keys, ...(args ?? []).map(({ value }) => value)].map(String).map(quoted).join(' ');

function evalsha(lane, call) {
  const { file } = call.second ? lane.second : lane;
  return `redis-cli -x SCRIPT LOAD < ${file}\nredis-cli EVALSHA ${call.sha1} ${words(call)}\n`;
}

function evaluate(lane, call) {
  return `redis-cli EVAL ${quoted(lane.source.trimEnd())} ${words(call)}\n`;
}

/** The call in the terms of a loader: limiter, subject, limits and so on. What a loader does by itself is 0. */
function terms(lane, { keys, args }) {
  const argument = Object.fromEntries(args.map(({ name, value }) => [name, value]));
  const [, name, subject] = KEY.exec(keys[0]) ?? [null, 'play', keys[0]];
  const ring = RINGS.includes(lane.id);
  const only = {
    permits: Number(argument.limit ?? argument.rate),
    window: Number(argument.window ?? argument.interval),
  };
  const limits = ring ? lane.promise : [only];
  return {
    id: lane.id,
    names: NAMES[lane.id],
    name: text(name),
    subject: text(subject.replace(/%(25|7B|7D)/g, (code) => decodeURIComponent(code))),
    request: keys.length > 1 && text(keys[1].split(':').at(-1)),
    ring,
    limits,
    burst: lane.id === 'gcra' && argument.burst !== argument.limit ? Number(argument.burst) : 0,
    ttl: Number(argument.ttl),
    permits: Number(argument.permits),
    ahead: Number(argument.max_wait ?? 0),
  };
}

const lines = (...all) => all.map((line) => `${line}\n`).join('');

/** The one of its kind: for slots, for a budget, for what books ahead, for all others. */
function choose({ id, ahead }, { slots, budget, booking, other }) {
  if (id === 'concurrency') return slots;
  return id === 'budget' ? budget : ahead ? booking : other;
}

/** A length of time in the largest unit that it is a whole number of. @param {[number, string][]} units */
function whole(us, units) {
  const [size, unit] = units.find(([size]) => us % size === 0);
  return [us / size, unit];
}

function go(call) {
  const { id, names, name, subject, request, ring, limits, burst, ttl, permits, ahead } = call;
  const units = [
    [3600e6, 'Hour'],
    [60e6, 'Minute'],
    [1e6, 'Second'],
    [1e3, 'Millisecond'],
    [1, 'Microsecond'],
  ];
  const time = (us) => {
    const [n, unit] = whole(us, units);
    return `${n === 1 ? '' : `${n}*`}time.${unit}`;
  };
  const fields = (limit) =>
    `{Permits: ${limit.permits}, Window: ${time(limit.window)}${burst ? `, Burst: ${burst}` : ''}}`;
  const windows = () => `[]loader.Limit{${limits.map(fields).join(', ')}}`;
  const limit = ring ? windows() : id === 'concurrency' ? `${limits[0].permits}, ${time(ttl)}` : '';
  const options =
    (ahead ? `, loader.MaxWait(${time(ahead)})` : '') +
    (id === 'budget' ? `, loader.SettleWithin(${time(ttl)})` : '');
  return lines(
    'limits := loader.New(rdb) // github.com/sluice-redis/sluice/loader',
    `limiter := limits.${names[0]}(${name}, ${limit || `loader.Limit${fields(limits[0])}`}${options})`,
    choose(call, {
      slots: `slot, d, err := limiter.TryAcquire(ctx, ${subject}) // if slot != nil: slot.Release()`,
      budget: `d, err := limiter.Reserve(ctx, ${subject}, ${request}, ${permits}) // later: limiter.Settle(.., actual)`,
      booking: `booking, err := limiter.ReserveN(ctx, ${subject}, ${permits}) // booking.OK(), booking.Wait(ctx)`,
      other: `d, err := limiter.AllowN(ctx, ${subject}, ${permits}) // d.Granted, d.Remaining, d.Wait`,
    }),
  );
}

function python(call) {
  const { id, name, subject, request, ring, limits, burst, ttl, permits, ahead } = call;
  const units = [
    [1e6, 'seconds'],
    [1e3, 'milliseconds'],
    [1, 'microseconds'],
  ];
  const time = (us) => {
    const [n, unit] = whole(us, units);
    return `timedelta(${unit}=${n})`;
  };
  const plain = () =>
    id === 'concurrency'
      ? `slots=${limits[0].permits}, ttl=${time(ttl)}`
      : `permits=${limits[0].permits}, window=${time(limits[0].window)}`;
  const limit = ring ? `[${limits.map((one) => `Limit(${one.permits}, ${time(one.window)})`).join(', ')}]` : plain();
  const options =
    (burst ? `, burst=${burst}` : '') +
    (id === 'budget' ? `, settle_within=${time(ttl)}` : '');
  const decision = 'print(decision.granted, decision.remaining, decision.wait)';
  return lines(
    'from datetime import timedelta\n\nimport redis',
    `from sluice_redis import ${ring ? 'Limit, ' : ''}Limits\n`,
    `limiter = Limits(redis.Redis()).${id}(${name}, ${limit}${options})`,
    ...choose(call, {
      slots: [`slot, decision = limiter.try_acquire(${subject})`, 'if slot:\n    slot.release()'],
      budget: [`decision = limiter.reserve(${subject}, ${request}, ${permits})`, decision],
      booking: [`booking = limiter.reserve(${subject}, ${permits}, max_wait=${time(ahead)})`, 'print(booking.delay)'],
      other: [`decision = limiter.allow_n(${subject}, ${permits})`, decision],
    }),
  );
}

function node(call) {
  const { id, names, name, subject, request, ring, limits, burst, ttl, permits, ahead } = call;
  const fields = (limit) => `permits: ${limit.permits}, window: ${limit.window / 1e3}`;
  const plain = id === 'concurrency' ? `slots: ${limits[0].permits}, ttl: ${ttl / 1e3}` : fields(limits[0]);
  const limit = ring ? `windows: [${limits.map((one) => `{ ${fields(one)} }`).join(', ')}]` : plain;
  const options =
    (burst ? `, burst: ${burst}` : '') +
    (id === 'budget' ? `, settleWithin: ${ttl / 1e3}` : '');
  const decision = 'console.log(decision.granted, decision.remaining, decision.wait);';
  return lines(
    "import { createClient } from 'redis';",
    "import { Limits } from 'sluice-redis';\n",
    'const client = createClient();',
    'await client.connect();',
    `const limiter = new Limits(client).${names[1]}(${name}, { ${limit}${options} }); // milliseconds`,
    ...choose(call, {
      slots: [`const { slot, decision } = await limiter.tryAcquire(${subject});`, 'await slot?.release();'],
      budget: [`const decision = await limiter.reserve(${subject}, ${request}, ${permits});`, decision],
      booking: [
        `const booking = await limiter.reserve(${subject}, { n: ${permits}, maxWait: ${ahead / 1e3} });`,
        'console.log(booking.ok, booking.delay);',
      ],
      other: [`const decision = await limiter.allowN(${subject}, ${permits});`, decision],
    }),
  );
}
