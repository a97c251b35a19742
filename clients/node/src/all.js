'use strict';

const { OutcomeUnknownError, refuse } = require('./errors');
const { checkOptions } = require('./options');

/** Asks several limiters at once. If one denies or fails, what the others granted is given back in the background. */
async function all(parts, options = {}) {
  checkOptions('all', 'all', options, ['signal']);
  if (!Array.isArray(parts) || parts.length === 0) throw refuse('all', 'parts', parts, '[limiter, subject, n], ..');
  const keys = new Set();
  const entries = parts.map((part) => entryOf(part, keys));
  const never = entries.filter(({ limiter }) => limiter.capacity === 0);
  const asked = never.length > 0 ? never : entries; // nothing is charged for a denial that is certain
  const ask = ({ limiter, subject, n, id }) => limiter.decide('all', subject, { n, maxWait: 0, id }, options);
  const outcomes = await Promise.allSettled(asked.map(ask));
  const failed = outcomes.find(({ status }) => status === 'rejected');
  const decided = asked.map(({ limiter: { name }, subject }, i) => ({ limiter: name, subject, ...outcomes[i].value }));
  if (failed || decided.some(({ granted }) => !granted)) asked.forEach((entry, i) => undo(entry, outcomes[i]));
  if (failed) throw failed.reason;
  return decisionOf(decided.map(Object.freeze));
}

/** Checks a part before anything is sent. */
function entryOf(part, keys) {
  const [limiter, subject, n = 1] = Array.isArray(part) ? part : [part];
  if (typeof limiter?.giveBack !== 'function') {
    const kind = limiter?.kind?.method ?? limiter;
    throw refuse('all', 'limiter', kind, 'one that can give back: listLog, zsetLog, sliceRing or quota');
  }
  limiter.checkNumber('all', n);
  for (const key of limiter.keys(subject)) {
    const want = 'each limiter once about a subject, with the sum';
    if (keys.has(key)) throw refuse(limiter.name, 'subject', subject, want);
    keys.add(key);
  }
  return { limiter, subject, n, id: limiter.idOf() };
}

/** Gives back what was granted, and what may have been if it has an id. */
function undo({ limiter, subject, n, id }, { value, reason }) {
  const isUnknown = (reason ?? value.cause) instanceof OutcomeUnknownError;
  const grant = isUnknown && id ? { granted: true, permits: n, id } : value;
  if (grant) limiter.limits.later(() => limiter.giveBack(subject, grant, grant.permits || undefined));
}

/** Makes one decision: of the longest wait, or if all granted of the fewest permits left. */
function decisionOf(parts) {
  const denied = parts.filter(({ granted }) => !granted).sort((a, b) => b.wait - a.wait);
  const tightest = parts.reduce((a, b) => (b.remaining < a.remaining ? b : a));
  const { limiter, subject, key, id, rings, ...decision } = denied[0] ?? tightest;
  const { degraded = false, cause } = parts.find((part) => part.degraded) ?? {};
  const granted = denied.length > 0 ? [] : parts;
  return Object.freeze({ ...decision, permits: 0, parts: granted, denied, degraded, ...(cause && { cause }) });
}

module.exports = { all };
