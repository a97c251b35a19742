// Random links: the same for the same seed.
import { GROUPS } from '../web/catalog.js';

const lanes = GROUPS.flatMap(([, limiters]) => limiters.map(([id]) => id)).filter((id) => id !== 'own');

/** randomOf returns a function that returns numbers below its argument. */
function randomOf(seed) {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

/** links makes up so many links. Each has a few hundred calls. */
export function links(count, seed = 1) {
  const random = randomOf(seed);
  const pick = (...values) => values[random(values.length)];
  return Array.from({ length: count }, () => {
    const link = new URLSearchParams();
    const chosen = Array.from({ length: 1 + random(4) }, () => lanes[random(lanes.length)]);
    link.set('lanes', [...new Set(chosen)].join(','));
    link.set('processes', 1 + random(2));
    link.set('error', pick(80, 100));
    const permits = 1 + random(20);
    const optional = {
      permits, window: pick('100ms', '1s', '2500ms', '1m'), burst: 1 + random(40), ahead: pick('1s', '250ms', '60s'),
      for: pick('1s', '5s', '20s'), rate: pick(2, 8, 13.5, 40), burstiness: pick(0, 1, 2, 9), clients: 1 + random(30),
      noisy: random(101), key: 'client', cost: 1 + random(Math.min(permits, 3)), denied: pick('wait', 'poll'),
      every: pick('10ms', '100ms', '1s'), tries: 1 + random(6), skew: pick('10ms', '2s'),
      step: pick('500ms:-10s', '300ms:2s', '200ms:-100ms,600ms:1s'), bunch: pick('1s:12', '500ms:3'),
      paint: pick('0a', 'a0z', '5555zz00'), hold: pick('5ms', '300ms', '3s'), holdmax: '4s', lost: pick(5, 50),
      ttl: pick('50ms', '1s'), unused: pick(20, 100),
      actual: pick(0, 50, 180), actualmax: 250, calls: pick('100ms', '1ms,1ms,2ms,999.5ms'), seed: random(1e6),
    };
    for (const [name, value] of Object.entries(optional)) if (random(3) === 0) link.set(name, value);
    if (link.has('cost') && !link.has('permits')) link.set('cost', 1);
    return link.toString();
  });
}
