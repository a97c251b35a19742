/** The lanes: one row a limiter, with its picture, its audit and what it stores; and which call is selected. */
import { GROUPS } from './catalog.js';
import { atNextFrame, byId, make, setText, stillness } from './dom.js';
import { bytes, count, duration, fullest, within } from './format.js';
import { Picture } from './picture.js';
import { AT, CLIENT, ENDED, OUTCOME, OUTCOMES, PERMITS, REMAINING, WAIT } from './run.js';
import { steps } from './stage.js';
import * as state from './state.js';
import { Stored } from './stored.js';

const BADGES = { ours: 'Sluice', other: 'other way', own: 'yours' };

let run = null;
let rows = [];
let selected = { lane: 0, index: -1 }; // index -1: the last call
let onSelect;

/** @param {(lane: number, index: number) => void} selectCall is told what the user selects */
export function start(selectCall) {
  onSelect = selectCall;
  const select = byId('add-lane');
  for (const [label, ways] of GROUPS) {
    select.append(make('optgroup', { label }, ...ways.map(([value, text]) => make('option', { value }, text))));
  }
  byId('add').addEventListener('click', () => add(select.value));
}

export function add(id) {
  const ids = state.lanes();
  if (ids.includes(id)) return rows[ids.indexOf(id)]?.element.scrollIntoView({ block: 'nearest' });
  if (ids.length < state.MAX_LANES) state.set({ lanes: [...ids, id].join(',') });
  else setText(byId('status'), `${state.MAX_LANES} lanes at most: remove one first.`);
}

export const selection = () => selected;

/** Shows a run. The rows are made anew only where the lanes are others. */
export function show(next) {
  const names = (lanes) => lanes.map(({ id }) => id).join();
  const same = run && names(run.opened.lanes) === names(next.opened.lanes);
  const again = run?.link === next.link; // such as the recorded run, by the engine
  run = next;
  if (!same) {
    rows = run.opened.lanes.map((lane, i) => new Row(lane, i));
    keepFocus(() => byId('lanes').replaceChildren(...rows.map(({ element }) => element)));
  }
  selected = { lane: same ? selected.lane : 0, index: again ? selected.index : -1 };
  redraw();
}

export const redraw = atNextFrame(() => {
  if (!run || (stillness.matches && !run.done)) return;
  const needs = rows.map((row) => row.picture.place(row.calls, run.axis));
  const scale = {
    dense: needs.some(({ dense }) => dense),
    above: Math.max(...needs.map(({ above }) => above)),
    below: Math.max(...needs.map(({ below }) => below)),
  };
  for (const row of rows) row.draw(scale);
  byId('mark-ended').hidden = scale.dense || !run.audit?.lanes.some(({ ended }) => ended);
  byId('mark-late').hidden = !run.audit?.lanes.some(({ late }) => late);
  const bars = `Bars of ${duration(rows[0].picture.barTime)}, the highest ${count(scale.above)} permits.`;
  setText(byId('scale'), scale.dense ? bars : '');
});

/** Puts the focus back on the control that had it, when the rows are made anew; a lane that is gone has no controls. */
function keepFocus(replace) {
  const focused = document.activeElement;
  const label = byId('lanes').contains(focused) && focused.getAttribute('aria-label');
  replace();
  if (label) (document.querySelector(`#lanes [aria-label="${CSS.escape(label)}"]`) ?? byId('add-lane')).focus();
}

function select(lane, index) {
  if (!run.lanes[lane].length) return;
  selected = { lane, index };
  redraw();
  onSelect(lane, index);
}

/** One call in words. */
export function callText(lane, index) {
  const calls = run.lanes[lane];
  const get = (field) => calls.get(index, field);
  const wait = get(WAIT) > 0 ? `, wait ${duration(get(WAIT))}` : '';
  const left = get(REMAINING) >= 0 ? `, ${count(get(REMAINING))} remaining` : '';
  const { second } = run.opened.lanes[lane];
  const hasEnded = get(OUTCOME) === ENDED;
  const says = get(PERMITS) > 1 || (hasEnded && second.word !== 'released');
  const cost = says ? `, ${count(get(PERMITS))} permits` : '';
  const outcome = hasEnded ? second.word : OUTCOMES[get(OUTCOME)];
  return `${duration(get(AT))}, client ${get(CLIENT)}${cost}: ${outcome}${wait}${left}`;
}

class Row {
  constructor(lane, index) {
    this.index = index;
    this.id = lane.id;
    const title = make('h3', { id: `lane-${lane.id}` }, lane.title);
    this.audit = make('div', { class: 'audit' });
    this.figures = make('dl', { class: 'figures' });
    this.stored = new Stored();
    this.canvas = make('canvas', {
      class: 'picture',
      tabindex: 0,
      role: 'slider',
      'aria-label': `Calls of ${lane.title}`,
      'aria-valuemin': 0,
      onpointerdown: (event) => this.pressed(event),
      onpointermove: (event) => this.pointed(event),
      onkeydown: (event) => this.keyed(event),
    });
    this.picture = new Picture(this.canvas, redraw);
    this.element = make(
      'article',
      { class: 'lane', 'data-lane': lane.id, 'aria-labelledby': title.id },
      make(
        'header',
        {},
        make('div', { class: 'name' }, title, make('span', { class: `badge ${lane.kind}` }, BADGES[lane.kind])),
        this.audit,
        make(
          'p',
          { class: 'note' },
          lane.note,
          ' ',
          make('code', { title: `SHA1 ${lane.sha1}` }, lane.sha1.slice(0, 8)),
        ),
      ),
      this.canvas,
      make('div', { class: 'readout' }, this.figures, this.stored.element, this.buttons(lane)),
    );
  }

  buttons({ title, id }) {
    const ids = () => state.lanes();
    const move = (by) => {
      const next = ids().filter((other) => other !== id);
      next.splice(Math.max(ids().indexOf(id) + by, 0), 0, id);
      state.set({ lanes: next.join(',') });
    };
    const button = (text, label, onclick) =>
      make(
        'button',
        { type: 'button', class: 'quiet', 'aria-label': `${label} ${title}`, title: label, onclick },
        text,
      );
    return make(
      'div',
      { class: 'order' },
      button('↑', 'Move up', () => move(-1)),
      button('↓', 'Move down', () => move(1)),
      button(
        '×',
        'Remove',
        () =>
          ids().length > 1 &&
          state.set({
            lanes: ids()
              .filter((other) => other !== id)
              .join(','),
          }),
      ),
    );
  }

  get calls() {
    return run.lanes[this.index];
  }

  /** The selected call of this lane: the last one, if no other is selected; -1 if another lane is. */
  get current() {
    if (selected.lane !== this.index) return -1;
    return selected.index < 0 ? this.calls.length - 1 : Math.min(selected.index, this.calls.length - 1);
  }

  draw(scale) {
    const audit = run.audit?.lanes[this.index];
    const windows = audit?.windows ?? [];
    this.element.classList.toggle('selected', selected.lane === this.index);
    this.picture.draw({ windows, steps: steps(), selected: this.current, scale });
    this.describe();
    if (!audit) return;
    this.showAudit(windows, audit);
    this.showFigures(audit);
    this.stored.show(run.stored[this.index], run.opened.lanes[this.index].promise[0]?.window || 1e6);
  }

  describe() {
    const index = this.current < 0 ? this.calls.length - 1 : this.current;
    this.canvas.setAttribute('aria-valuemax', Math.max(this.calls.length, 1));
    this.canvas.setAttribute('aria-valuenow', index + 1);
    this.canvas.setAttribute('aria-valuetext', index < 0 ? 'no calls' : callText(this.index, index));
  }

  showAudit(windows, audit) {
    const texts = windows.map((window) => `${fullest(window)}${window.over ? ', over' : ''}`);
    if (audit.error) texts.push(audit.error);
    if (this.shown === texts.join('|')) return;
    this.shown = texts.join('|');
    this.audit.replaceChildren(
      ...windows.map((window) =>
        make(
          'div',
          { class: window.over ? 'over' : 'held', 'data-audit': texts[windows.indexOf(window)] },
          make('strong', {}, count(window.most)),
          ` of ${count(window.promised)} ${within(window.window)}`,
          make('span', { class: 'verdict' }, window.over ? 'over' : 'held'),
        ),
      ),
      ...(audit.error ? [make('p', { class: 'lane-error' }, audit.error)] : []),
    );
  }

  showFigures(audit) {
    let last = this.calls.length - 1; // that asked
    while (last >= 0 && this.calls.get(last, OUTCOME) >= ENDED) last--;
    const remaining = last < 0 ? -1 : this.calls.get(last, REMAINING);
    const wait = last < 0 ? -1 : this.calls.get(last, WAIT);
    const figures = {
      granted: count(audit.granted),
      booked: count(audit.booked),
      denied: count(audit.denied),
      ...(audit.errors ? { errors: count(audit.errors) } : {}),
      ...(audit.ended ? { [run.opened.lanes[this.index].second.word]: count(audit.ended) } : {}),
      ...(audit.here ? { 'without Redis': count(audit.here) } : {}),
      ...(audit.late ? { 'too late': count(audit.late) } : {}),
      remaining: remaining < 0 ? '?' : count(remaining),
      wait: wait < 0 ? '?' : duration(wait),
      'median wait': duration(audit.median_wait ?? 0),
      stored: bytes(audit.bytes ?? 0),
    };
    const names = Object.keys(figures);
    if (this.figureNames !== names.join()) {
      this.figureNames = names.join();
      this.values = names.map((name) => make('dd', { 'data-figure': name }));
      this.figures.replaceChildren(
        ...names.map((name, i) =>
          make(
            'div',
            { class: `figure is-${name}` },
            make('dt', {}, name === 'remaining' || name === 'wait' ? `last ${name}` : name),
            this.values[i],
          ),
        ),
      );
    }
    for (const [i, name] of names.entries()) setText(this.values[i], figures[name]);
  }

  pressed({ offsetX, offsetY }) {
    const index = this.picture.nearest(offsetX, offsetY);
    if (index >= 0) select(this.index, index);
  }

  /** Says under the pointer which call it would select. */
  pointed({ offsetX, offsetY, target }) {
    const index = this.picture.nearest(offsetX, offsetY);
    target.title = index < 0 ? '' : callText(this.index, index);
  }

  keyed(event) {
    const last = this.calls.length - 1;
    const from = this.current < 0 ? last : this.current;
    const to = {
      ArrowLeft: from - 1,
      ArrowRight: from + 1,
      ArrowDown: from - 1,
      ArrowUp: from + 1,
      PageUp: from + 10,
      PageDown: from - 10,
      Home: 0,
      End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    select(this.index, Math.min(Math.max(to, 0), last));
  }
}

/** Selects the call before or after, as the buttons of the source pane do. */
export function step(by) {
  const calls = run?.lanes[selected.lane];
  if (!calls?.length) return;
  const from = selected.index < 0 ? calls.length - 1 : selected.index;
  select(selected.lane, Math.min(Math.max(from + by, 0), calls.length - 1));
}
