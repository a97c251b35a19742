'use strict';

const { refuse } = require('./errors');
const { checkOptions, integer, duration, limitOf } = require('./options');
const { span } = require('./time');

// The slices of sliceRing and budget. The rules are the Go loader's, so that both count in the same windows.

const slicesPerWindow = 200;
const maxSlices = 999; // whole slices in a window; the current one is the 1000th
const minSlice = 1e3; // microseconds
const maxSlice = 86400e6;

/** Returns the windows of a ring: { limits, groups, slices }, groups for the script, slices for decisions. */
function ringOf(name, kind, script, options) {
  const windows = options.windows ?? [{ permits: options.permits, window: options.window }];
  if (!Array.isArray(windows)) throw refuse(name, 'windows', windows, 'an array of { permits, window }');
  if (options.windows !== undefined) checkWindows(name, options);
  integer(name, 'number of windows', windows.length, 1, script.group.max);
  const limits = windows.map((limit) => limitOf(name, kind, script, limit, maxSlices * maxSlice));
  const given = options.slice === undefined ? 0 : duration(name, 'slice', options.slice, minSlice, maxSlice);
  const groups = limits.map((limit) => sliced(name, limit, given));
  const same = (a) => (b) => a.slice_i === b.slice_i && a.size_i === b.size_i;
  const twice = groups.findIndex((group, i) => group.limit_i > 0 && groups.findIndex(same(group)) < i);
  if (twice >= 0) throw refuse(name, 'windows', span(limits[twice].window), 'each window once');
  const slices = groups.map(({ slice_i: slice, size_i: size }) => Object.freeze({ slice, size }));
  return { limits, groups, slices: Object.freeze(slices) };
}

/** What scripts and keys call the slice and size of a window. */
const groupOf = ({ slice, size }) => ({ slice_i: slice, size_i: size });

/** A window with the slices that cover it, and one more: the current slice is never a whole one. */
function sliced(name, { permits, window }, given) {
  const slice = given || Math.max(Math.min(Math.ceil(window / slicesPerWindow), maxSlice), minSlice);
  if (permits > 0 && window < slice) throw refuse(name, 'window', span(window), `a slice, ${span(slice)}, or more`);
  if (permits > 0 && window > maxSlices * slice) {
    const want = `up to ${span(maxSlices * slice)}: ${maxSlices} slices of ${span(slice)}`;
    throw refuse(name, 'window', span(window), given && given < maxSlice ? `${want}; more takes longer slices` : want);
  }
  return { slice_i: slice, size_i: Math.min(Math.ceil(window / slice), maxSlices) + 1, limit_i: permits };
}

function checkWindows(name, { windows, ...rest }) {
  for (const argument of ['permits', 'window']) {
    const value = rest[argument];
    if (value !== undefined) throw refuse(name, argument, value, 'windows alone, or permits and window');
  }
  for (const limit of windows) checkOptions(name, 'windows', limit, ['permits', 'window']);
}

/** Returns what each window has left, from the counts in a reply. What is counted was granted by now. */
function statesOf({ groups }, counts, resetAfter, now) {
  const empty = ({ slice_i: slice, size_i: size }) => Math.min(resetAfter, size * slice - (now % slice)) / 1e3;
  return groups.map((group, i) => ({
    remaining: Math.max(group.limit_i - counts[i], 0),
    resetAfter: counts[i] > 0 ? empty(group) : 0,
  }));
}

/** Returns the windows with their states, the tightest first. */
function windowsOf({ limits, groups }, states) {
  const limitOf = ({ permits, window }) => Object.freeze({ permits, window: window / 1e3 });
  const windows = limits.map((limit, i) => {
    const countsFor = (groups[i].slice_i * groups[i].size_i) / 1e3;
    return Object.freeze({ limit: limitOf(limit), ...states[i], countsFor });
  });
  return Object.freeze(windows.sort((a, b) => a.remaining - b.remaining || b.resetAfter - a.resetAfter));
}

module.exports = { groupOf, ringOf, statesOf, windowsOf };
