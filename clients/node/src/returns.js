'use strict';

const { refuse } = require('./errors');
const { integer } = require('./options');
const { groupOf } = require('./ring');
const { argsOf, scriptOf } = require('./scripts');

/** Gives back n of the permits that a decision granted. Returns how many were. */
async function giveBack(subject, decision, n = decision?.permits, options = {}) {
  this.check('giveBack', options);
  if (!isDecision(decision)) throw refuse(this.name, 'decision', decision, 'a decision of this limiter');
  const script = scriptOf(this.kind.script, 'return');
  const named = decision.id !== undefined && this.kind.method === 'zsetLog';
  const windows = this.ring && (decision.rings ?? this.ring.slices);
  const keys = this.grantKeys(subject, windows);
  const [key] = keys;
  if (!decision.granted || (decision.degraded && !named)) return 0;
  integer(this.name, 'n', n, 1, Infinity);
  if (decision.key !== key && !(decision.key === undefined && named)) {
    throw refuse(this.name, 'decision', decision.key, `one of this limiter about this subject: ${key}`);
  }
  if (n > decision.permits) throw refuse(this.name, 'n', n, `up to ${decision.permits}, as many as were granted`);
  const begin = decision.periodBegin === undefined ? undefined : Math.round(decision.periodBegin * 1e3);
  const values = { ...this.values, moment: momentOf(decision), begin, id: decision.id, permits: n };
  const bounds = { ...this.bounds(options), repeats: named && n === decision.permits };
  const args = argsOf(script, values, windows?.map(groupOf));
  const [returned] = await this.limits.caller.run(script, keys, args, bounds);
  return returned;
}

function isDecision(value) {
  const numbers = [value?.permits, value?.wait ?? 0, value?.now ?? 0];
  return typeof value?.granted === 'boolean' && numbers.every((number) => typeof number === 'number') &&
    areRings(value.rings);
}

/** Only decisions of rings have some. */
function areRings(rings) {
  if (rings === undefined) return true;
  const isRing = (ring) => Number.isInteger(ring?.slice) && Number.isInteger(ring.size);
  return Array.isArray(rings) && rings.length > 0 && rings.every(isRing);
}

/** The time that permits were granted for, in microseconds. None if Redis did not say: zsetLog knows it by its id. */
function momentOf({ now, wait = 0 }) {
  return now === undefined ? undefined : Math.round((now + wait) * 1e3);
}

module.exports = { giveBack, isDecision };
