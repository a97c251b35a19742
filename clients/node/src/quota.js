'use strict';

const { refuse } = require('./errors');
const { Limiter } = require('./limiter');
const { checkOptions, integer } = require('./options');
const { giveBack } = require('./returns');
const { argsOf, argumentOf } = require('./scripts');
const { toMicros } = require('./time');

const day = 86400e3; // milliseconds

/** The first day of the k-th period after that of a day. Days are their begins in UTC. */
const firstDays = {
  day: (today, k) => today + k * day,
  week: (today, k) => today + (7 * k - ((new Date(today).getUTCDay() + 6) % 7)) * day,
  month: (today, k) => Date.UTC(new Date(today).getUTCFullYear(), new Date(today).getUTCMonth() + k, 1),
  year: (today, k) => Date.UTC(new Date(today).getUTCFullYear() + k, 0, 1),
};

const clocks = new Map(); // by zone

/** Returns what says which time the clocks of a zone show, as if it were UTC's. Throws a RangeError of another name. */
function clockOf(zone) {
  if (clocks.has(zone)) return clocks.get(zone);
  const numeric = { year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric' };
  const format = new Intl.DateTimeFormat('en-u-ca-gregory-hc-h23', { timeZone: zone, ...numeric, second: 'numeric' });
  const clock = (at) => {
    const shown = Object.fromEntries(format.formatToParts(at).map(({ type, value }) => [type, Number(value)]));
    return Date.UTC(shown.year, shown.month - 1, shown.day, shown.hour, shown.minute, shown.second);
  };
  clocks.set(zone, clock);
  return clock;
}

/** The begin of a day of a zone. It is later than 0:00 where the clocks go forward over it. */
function midnight(clock, wall) {
  const offset = (at) => clock(at) - at;
  const at = wall - offset(wall - offset(wall)); // as Go's time.Date
  return Math.floor(clock(at) / day) * day === wall ? at : wall - offset(at);
}

const known = new Map(); // the begins of periods around a day: to ask Intl takes longer than Redis does

function beginsAround(period, zone, clock, today) {
  const name = `${period} ${zone} ${today}`;
  if (known.has(name)) return known.get(name);
  const begins = [-3, -2, -1, 0, 1, 2, 3].map((k) => midnight(clock, firstDays[period](today, k)));
  if (known.size >= 1000) known.clear();
  const ordered = [...new Set(begins)].sort((a, b) => a - b); // a day that a zone left out has no begin of its own
  known.set(name, ordered);
  return ordered;
}

/**
 * Returns the begins of three periods, of which the second is that of a time, and the end of the third: those of the Go
 * loader. All are in milliseconds.
 */
function momentsOf(period, zone, at) {
  const clock = clockOf(zone);
  const today = Math.floor(clock(Math.floor(at / 1e3) * 1e3) / day) * day;
  const begins = beginsAround(period, zone, clock, today);
  const second = begins.findLastIndex((begin) => begin <= at);
  return begins.slice(second - 1, second + 3);
}

/** Returns the moments of a caller's own period. What is asked before or after it counts in 366 days beside it. */
function momentsOfOwn(name, period) {
  checkOptions(name, 'period', period, ['begin', 'end']);
  const [begin, end] = ['begin', 'end'].map((argument) => {
    const micros = toMicros(Number(period[argument]));
    if (micros > 0) return micros / 1e3;
    throw refuse(name, argument, period[argument], 'a Date or milliseconds since 1970, in whole microseconds');
  });
  if (begin >= end) throw refuse(name, 'end', period.end, 'a time after the begin');
  return [Math.max(0, begin - 366 * day), begin, end, end + 366 * day];
}

/** Counts in the periods of a calendar. Redis's clock chooses the period. */
class Quota extends Limiter {
  configure({ permits, period, zone }) {
    integer(this.name, 'permits', permits, 0, argumentOf(this.script, 'limit').max);
    if (this.onFailure.local) throw refuse(this.name, 'onFailure', this.onFailure, '"error", "open" or "deny"');
    this.capacity = permits;
    this.limit = Object.freeze({ permits, window: 0 });
    if (Object.hasOwn(firstDays, period)) {
      this.checkZone(zone);
      this.moments = () => momentsOf(period, zone ?? 'UTC', Date.now());
      return;
    }
    if (typeof period !== 'object') {
      throw refuse(this.name, 'period', period, '"day", "week", "month", "year" or { begin, end }');
    }
    const own = momentsOfOwn(this.name, period);
    if (zone !== undefined) throw refuse(this.name, 'zone', zone, 'none: your own period has its begin and its end');
    this.moments = () => own;
  }

  checkZone(zone = 'UTC') {
    try {
      clockOf(zone);
    } catch {
      throw refuse(this.name, 'zone', zone, 'the name of a zone, as "Europe/Berlin"');
    }
  }

  args(n, maxWait, id, reported = 0) {
    const [first, second, third, after] = this.moments().map((at) => Math.round(at * 1e3));
    return argsOf(this.script, { limit: this.capacity, permits: n, reported, first, second, third, after });
  }

  detail(decision, [begin, end]) {
    const limit = Object.freeze({ permits: this.capacity, window: (end - begin) / 1e3 });
    Object.assign(decision, { limit, periodBegin: begin / 1e3, periodEnd: end / 1e3 });
  }

  /** Charges n permits whatever the period holds. */
  async report(subject, n, options = {}) {
    this.check('report', options);
    integer(this.name, 'n', n, 0, argumentOf(this.script, 'reported').max);
    if (this.capacity === 0) return this.never(subject);
    const bounds = { ...this.bounds(options), peeks: n === 0 };
    const reply = await this.limits.caller.run(this.script, this.keys(subject), this.args(0, 0, undefined, n), bounds);
    const [, , wait, , , , , count] = reply;
    const fits = count <= this.capacity;
    const decision = this.decision(reply.with(2, fits ? 0 : wait), 0);
    return Object.freeze({ ...decision, granted: fits });
  }
}
Quota.prototype.giveBack = giveBack;

module.exports = { Quota, momentsOf };
