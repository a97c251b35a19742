/** The lanes that can be chosen. The engine knows the rest of them. */

export const OURS = [
  'list_log',
  'zset_log',
  'gcra',
  'token_bucket',
  'slice_ring',
  'ahead',
  'quota',
  'budget',
  'concurrency',
];

const OTHERS = {
  fixed_window: 'fixed window',
  two_windows: 'two-window estimate',
  tutorial_log: 'log of a tutorial',
  tutorial_bucket: 'bucket of a tutorial',
  s1: 'log that records denied calls',
  s2: 'log that says yes or no',
  s3: 'log of milliseconds',
  s4: 'counter beside a log',
  counter: 'counter up and down',
  cached_counter: 'cached counter',
};

export const GROUPS = [
  ['Sluice', OURS.map((id) => [id, id])],
  ['Other ways', Object.entries(OTHERS)],
  ['Yours', [['own', 'your own script']]],
];

export const EXAMPLE = `-- A counter that begins again every window. What does it let through at the edge of two?
-- KEYS[1]; ARGV: limit, window (us), permits, now (the client's clock, us), a unique id.
-- Reply: {granted, remaining, wait in us}, or 1 or 0.
local limit, window, permits = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])

local used = redis.call('INCRBY', KEYS[1], permits)
if used == permits then
  redis.call('PEXPIRE', KEYS[1], math.ceil(window / 1000))
end
if used > limit then
  return {0, 0, redis.call('PTTL', KEYS[1]) * 1000}
end
return {permits, limit - used, 0}
`;
