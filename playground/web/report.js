/** The run in words, for screen readers, and its numbers as a table. */
import { byId, make, setText } from './dom.js';
import { bytes, count, duration, fullest } from './format.js';

const EVERY = 2000; // ms between two announcements
const COLUMNS = [
  'limiter',
  'most, in the fullest window or at once',
  'calls',
  'granted',
  'booked',
  'denied',
  'errors',
  'renewed',
  'released, settled, given back, reported',
  'too late',
  'permits',
  'median wait',
  'stored',
];

let announced = 0;

export function start() {
  byId('table-head').replaceChildren(...COLUMNS.map((name) => make('th', { scope: 'col' }, name)));
}

/** @param {any} run */
export function show(run) {
  if (byId('table-panel').open || run.done) fill(run);
  const now = performance.now();
  if (!run.done && now - announced < EVERY) return;
  announced = now;
  setText(byId('summary'), run.opened.lanes.map((lane, i) => sentence(lane, run.audit.lanes[i])).join(' '));
}

const verdicts = (audit) =>
  audit.windows.map((window) => `${fullest(window)}${window.over ? ' (over)' : ''}`).join('; ');

function sentence({ title, second }, audit) {
  const failed = audit.error ? ` First error: ${audit.error}.` : '';
  const ended = audit.ended ? `, ${count(audit.ended)} ${second.word}` : '';
  const late = audit.late ? `, ${count(audit.late)} too late` : '';
  const errors = audit.errors ? `, ${count(audit.errors)} errors` : '';
  const calls = `${count(audit.granted)} granted, ${count(audit.booked)} booked, ${count(audit.denied)} denied`;
  return `${title}: ${calls}${ended}${late}${errors}; at most ${verdicts(audit)}.${failed}`;
}

function fill(run) {
  byId('table-body').replaceChildren(
    ...run.opened.lanes.map((lane, i) => {
      const audit = run.audit.lanes[i];
      const { calls, granted, booked, denied, errors, renewed, ended, late, permits } = audit;
      const cells = [
        verdicts(audit),
        ...[calls, granted, booked, denied, errors, renewed, ended, late, permits].map((n) => count(n ?? 0)),
        duration(audit.median_wait ?? 0),
        bytes(audit.bytes ?? 0),
      ];
      return make(
        'tr',
        { 'data-lane': lane.id },
        make('th', { scope: 'row' }, lane.title),
        ...cells.map((text) => make('td', {}, text)),
      );
    }),
  );
}
