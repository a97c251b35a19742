/** The lanes that can be chosen. The engine knows the rest of them. */

export const OURS = ['list_log', 'zset_log', 'gcra', 'token_bucket', 'slice_ring'];

const OTHERS = {
  fixed_window: 'fixed window (INCR + EXPIRE)',
  two_windows: 'two-window estimate',
  tutorial_log: 'tutorial: sorted set',
  tutorial_bucket: 'tutorial: token bucket',
  s1: 'sorted set, refused are recorded',
  s2: 'exact log, yes or no',
  s3: 'sorted set of milliseconds',
  s4: 'counter beside entries',
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
