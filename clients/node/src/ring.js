'use strict';

const { refuse } = require('./errors');
const { checkOptions, integer, duration, limitOf } = require('./options');
const { span } = require('./time');

// The slices of sliceRing and budget. The rules are the Go loader's, so that both choose the same key.

const slicesPerWindow = 60; // for the shortest window
const maxSlices = 9999; // whole slices in the longest window; the current one is the 10000th
const minSlice = 1e3; // microseconds
const maxSlice = 86400e6;

/** Returns the windows of a ring and its slice, in microseconds: { slice, limits, groups }, groups for the script. */
function ringOf(name, kind, script, options) {
  const windows = options.windows ?? [{ permits: options.permits, window: options.window }];
  if (!Array.isArray(windows)) throw refuse(name, 'windows', windows, 'an array of { permits, window }');
  if (options.windows !== undefined) checkWindows(name, options);
  integer(name, 'number of windows', windows.length, 1, script.group.max);
  const limits = windows.map((limit) => limitOf(name, kind, script, limit, maxSlices * maxSlice));
  const counted = limits.filter((limit) => limit.permits > 0).map((limit) => limit.window);
  const shortest = Math.min(...counted);
  const longest = Math.max(...counted);
  const given = options.slice !== undefined && duration(name, 'slice', options.slice, minSlice, maxSlice);
  const slice = given || defaultSlice(counted);
  if (shortest < slice) throw refuse(name, 'window', span(shortest), `a slice, ${span(slice)}, or more`);
  if (longest > maxSlices * slice) throw tooLong(name, shortest, longest, slice);
  const groups = limits.map(({ permits, window }) => ({ slices_i: Math.ceil(window / slice) + 1, limit_i: permits }));
  return { slice, limits, groups, size: Math.max(...groups.map((group) => group.slices_i)) };
}

function checkWindows(name, { windows, ...rest }) {
  for (const argument of ['permits', 'window']) {
    const value = rest[argument];
    if (value !== undefined) throw refuse(name, argument, value, 'windows alone, or permits and window');
  }
  for (const limit of windows) checkOptions(name, 'windows', limit, ['permits', 'window']);
}

/** Returns the slice that windows get if no other is given. It is never longer than the shortest of them. */
function defaultSlice(windows) {
  if (windows.length === 0) return minSlice;
  const shortest = Math.min(...windows);
  const slice = Math.ceil(Math.max(shortest / slicesPerWindow, Math.max(...windows) / maxSlices));
  return Math.max(Math.min(slice, shortest, maxSlice), minSlice);
}

function tooLong(name, shortest, longest, slice) {
  let want = `up to ${span(maxSlices * slice)}: ${maxSlices} slices of ${span(slice)}`;
  if (slice < Math.min(maxSlice, shortest)) want += '; more takes longer slices';
  else if (slice < maxSlice) want += '; a slice is no longer than the shortest window';
  return refuse(name, 'window', span(longest), want);
}

/** Returns what each window has left, from the counts in a reply. */
function statesOf({ slice, limits, groups, size }, counts, resetAfter) {
  return limits.map(({ permits }, i) => ({
    remaining: Math.max(permits - counts[i], 0),
    resetAfter: counts[i] > 0 ? Math.max(resetAfter - (size - groups[i].slices_i) * slice, 0) / 1e3 : 0,
  }));
}

/** Returns the windows with their states, the tightest first. */
function windowsOf({ limits }, states) {
  const limitOf = ({ permits, window }) => Object.freeze({ permits, window: window / 1e3 });
  const windows = limits.map((limit, i) => Object.freeze({ limit: limitOf(limit), ...states[i] }));
  return Object.freeze(windows.sort((a, b) => a.remaining - b.remaining || b.resetAfter - a.resetAfter));
}

module.exports = { ringOf, statesOf, windowsOf };
