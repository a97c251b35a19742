/** What a run has brought so far: for each lane its calls in one growing array of numbers, and the last audit. */

/** A record: lane, at, client, permits, outcome, wait, remaining, try (from 1). Times are microseconds. */
export const FIELDS = 8;
export const AT = 1,
  CLIENT = 2,
  PERMITS = 3,
  OUTCOME = 4,
  WAIT = 5,
  REMAINING = 6;
export const DENIED = 0,
  GRANTED = 1,
  BOOKED = 2,
  ERROR = 3,
  ENDED = 4, // released, settled, given back or reported
  RENEWED = 5,
  LATE = 6; // too late for any of these
export const OUTCOMES = ['denied', 'granted', 'booked', 'error', 'ended', 'lease renewed', 'too late'];
export const MAX_DECISIONS = 50000;

/** The calls of one lane. */
class Calls {
  length = 0;
  #data = new Float64Array(256 * FIELDS);

  /** Appends the record that begins at `from`. */
  append(records, from) {
    const end = this.length * FIELDS;
    if (end === this.#data.length) {
      const larger = new Float64Array(2 * end);
      larger.set(this.#data);
      this.#data = larger;
    }
    for (let i = 0; i < FIELDS; i++) this.#data[end + i] = records[from + i];
    this.length++;
  }

  get(index, field) {
    return this.#data[index * FIELDS + field];
  }

  /** All calls as plain arrays, for tests. */
  all() {
    return Array.from({ length: this.length }, (_, i) => [...this.#data.subarray(i * FIELDS, (i + 1) * FIELDS)]);
  }
}

export class Run {
  /** @param {string} link @param {any} opened what the engine said of the link */
  constructor(link, opened) {
    this.link = link;
    this.opened = opened;
    this.lanes = opened.lanes.map(() => new Calls());
    this.audit = null;
    this.stored = [];
    this.end = opened.duration; // of the last call or booking
  }

  /** How long the axis of the pictures is: calls that come back may be later than the traffic, up to as long again. */
  get axis() {
    const { duration } = this.opened;
    if (this.end <= 1.02 * duration) return duration;
    return Math.min(Math.ceil((8 * this.end) / duration) / 8, 2) * duration;
  }

  get done() {
    return Boolean(this.audit?.done);
  }

  /** Takes a message of records: what it costs grows with the calls in it and nothing else. */
  add({ records, audit, stored }) {
    const numbers = new Float64Array(records);
    for (let i = 0; i < numbers.length; i += FIELDS) {
      this.lanes[numbers[i]].append(numbers, i);
      const used = numbers[i + AT] + (numbers[i + OUTCOME] === BOOKED ? numbers[i + WAIT] : 0);
      if (used > this.end && numbers[i + OUTCOME] < ENDED) this.end = used;
    }
    this.audit = audit;
    if (stored) this.stored = stored;
  }

  result() {
    const { link, opened, audit } = this;
    return { link, opened, audit, done: this.done, lanes: this.lanes.map((lane) => lane.all()) };
  }
}
