'use strict';

const { createHash } = require('node:crypto');

const maxSubjects = 10000;

/** The policy { local: share }: a token bucket for each window of a subject, as FailLocal of the Go loader. */
class Local {
  #subjects = new Map(); // by hash of the key, because a long subject must not take more memory

  /** Grants n permits from all windows or from none. Times are in milliseconds. undefined: n is above the share. */
  decide(key, limits, share, n, maxWait) {
    const buckets = this.#bucketsOf(key, limits, share);
    if (buckets.some(({ burst }) => n > burst)) return undefined;
    const wait = Math.max(...buckets.map((bucket) => until(bucket, Math.max(n, 1))));
    const granted = n > 0 && wait <= maxWait;
    for (const bucket of buckets) bucket.tokens -= granted ? n : 0;
    const stateOf = (bucket) => ({
      remaining: Math.max(Math.floor(bucket.tokens), 0),
      resetAfter: until(bucket, bucket.burst),
    });
    return { granted, wait, states: buckets.map(stateOf) };
  }

  /** A bucket starts full. If its limit changes, it keeps its tokens, up to its new size. */
  #bucketsOf(key, limits, share) {
    const hash = createHash('sha256').update(key).digest('base64');
    const buckets = this.#subjects.get(hash) ?? [];
    if (buckets.length === 0 && this.#subjects.size >= maxSubjects) {
      this.#subjects.delete(this.#subjects.keys().next().value);
    }
    this.#subjects.set(hash, buckets);
    const time = performance.now();
    return limits.map(({ permits, window, burst: most = permits }, i) => {
      const [rate, burst] = [(share * permits) / window, Math.max(Math.floor(share * most), 1)];
      const { tokens, ...old } = buckets[i] ?? { tokens: burst, time, rate, burst };
      const refilled = Math.min(tokens + (time - old.time) * old.rate, old.burst, burst);
      return (buckets[i] = { tokens: refilled, time, rate, burst });
    });
  }
}

/** Returns how long it takes until a bucket holds so many tokens, in whole microseconds. */
const until = (bucket, tokens) => Math.max(Math.ceil(((tokens - bucket.tokens) / bucket.rate) * 1e3), 0) / 1e3;

module.exports = { Local };
