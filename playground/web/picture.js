/**
 * The picture of one lane. Above the base line: permits, at the time from which they may be used, which is what the
 * audit counts. Below it: calls that were denied or failed, where a booking was asked for, and which ended a request. A
 * few calls are marks, stacked where they would overlap; many are bars, a few pixels of time wide. Each call is placed
 * once, as it comes.
 */
import { AT, BOOKED, DENIED, ENDED, ERROR, GRANTED, LATE, OUTCOME, PERMITS, WAIT } from './run.js';
import { FONT, PAD, SHAPES, Surface, clockSteps, gridLines, palette } from './canvas.js';
import { count } from './format.js';

const RADIUS = 2.8;
const PITCH = 6; // between marks that are stacked
const BAR = 3; // CSS pixels
const MAX_MARKS = 1500;
const TOP = 18; // CSS pixels above the highest mark or bar, for the names of bands
const BASE = 0.6; // of the height is above the base line
const COLORS = { asked: 'booked', ended: 'muted', late: 'error' };

export class Picture {
  #calls = null;
  #length = 1;
  #width = 0;
  #scale = { dense: false, above: 1, below: 1 };

  constructor(canvas, redraw) {
    this.surface = new Surface(canvas, redraw);
  }

  /** Places the calls that have come since. @returns {{dense: boolean, above: number, below: number}} what it needs */
  place(calls, length) {
    if (calls !== this.#calls || length !== this.#length || this.surface.width !== this.#width)
      this.#begin(calls, length);
    for (; this.placed < calls.length; this.placed++) this.#placeCall(this.placed);
    return { dense: this.dense, ...this.highest };
  }

  /** @param {any} scene windows, steps, selected (index or -1), and scale: what the lanes need together */
  draw({ windows, steps, selected, scale }) {
    const { surface } = this;
    const [calls, length] = [this.#calls, this.#length];
    const context = surface.clear();
    if (surface.width < 4 * PITCH) return;
    this.#scale = scale;
    gridLines(surface, length, surface.height);
    for (const window of windows) this.#band(context, window);
    clockSteps(surface, length, steps, surface.height, false);
    context.fillStyle = palette().muted;
    context.fillRect(0, Math.round(this.base), surface.width, 1);
    if (scale.dense) this.#bars(context);
    else this.#marks(context);
    if (this.later) this.#sayLater(context);
    if (selected >= 0 && selected < calls.length) this.#select(context, selected);
  }

  /** How long a bar is, in microseconds. */
  get barTime() {
    return this.surface.time(PAD + BAR, this.#length);
  }

  /** The call whose mark is nearest to a place, or -1. */
  nearest(x, y) {
    if (!this.#calls?.length) return -1;
    if (this.#scale.dense) return this.#nearestInTime(this.surface.time(x, this.#length));
    let best = -1;
    let least = Infinity;
    for (const mark of this.marks) {
      const distance = Math.hypot(mark.x - x, (mark.y - y) / 3);
      if (distance < least) [least, best] = [distance, mark.call];
    }
    return best;
  }

  #begin(calls, length) {
    this.#calls = calls;
    this.#length = length;
    this.#width = this.surface.width;
    this.base = this.surface.height * BASE;
    this.placed = 0;
    this.dense = false;
    this.later = 0; // calls and bookings beyond the axis
    this.marks = [];
    this.levels = { above: [], below: [] };
    const bars = Math.ceil(this.#width / BAR) + 1;
    this.bars = {
      granted: new Float64Array(bars),
      booked: new Float64Array(bars),
      denied: new Float64Array(bars),
      error: new Float64Array(bars),
      late: new Float64Array(bars),
    };
    this.highest = { above: 1, below: 1 };
  }

  #placeCall(call) {
    const get = (field) => this.#calls.get(call, field);
    const at = get(AT);
    switch (get(OUTCOME)) {
      case GRANTED:
        return this.#add(call, 'granted', 'above', at, get(PERMITS));
      case BOOKED: {
        const asked = at > this.#length ? undefined : this.#mark(call, 'asked', 'below', at);
        const used = this.#add(call, 'booked', 'above', at + Math.max(get(WAIT), 0), get(PERMITS));
        if (used) used.asked = asked;
        return;
      }
      case DENIED:
        return this.#add(call, 'denied', 'below', at, 1);
      case ERROR:
        return this.#add(call, 'error', 'below', at, 1);
      case ENDED:
        return at > this.#length ? void this.later++ : this.#mark(call, 'ended', 'below', at);
      case LATE:
        return this.#add(call, 'late', 'below', at, 1);
    }
  }

  #add(call, kind, side, at, amount) {
    if (at > this.#length) return void this.later++;
    const bar = Math.floor(this.surface.x(at, this.#length) / BAR);
    this.bars[kind][bar] += amount;
    const stacked = side === 'above' ? ['granted', 'booked'] : ['denied', 'error', 'late'];
    const sum = stacked.reduce((sum, kind) => sum + this.bars[kind][bar], 0);
    this.highest[side] = Math.max(this.highest[side], sum);
    return this.#mark(call, kind, side, at);
  }

  /** Puts a mark on the lowest level that is free at its time. */
  #mark(call, kind, side, at) {
    if (this.#calls.get(call, PERMITS) > 1 && kind !== 'ended') this.dense = true; // a mark does not show how many
    if (this.dense) return;
    const x = this.surface.x(at, this.#length);
    const levels = this.levels[side];
    let level = levels.findIndex((last) => Math.abs(x - last) >= PITCH && x > last);
    if (level < 0) level = levels.length;
    levels[level] = x;
    const y = this.base + (side === 'above' ? -1 : 1) * (level + 0.75) * PITCH;
    if (y < RADIUS + TOP - 4 || y > this.surface.height - RADIUS || this.marks.length >= MAX_MARKS) {
      this.dense = true;
      return;
    }
    const mark = { call, kind, x, y };
    this.marks.push(mark);
    return mark;
  }

  #marks(context) {
    const colors = palette();
    context.lineWidth = 1;
    context.strokeStyle = colors.booked;
    context.globalAlpha = 0.55;
    context.beginPath();
    for (const { kind, asked, x, y } of this.marks) {
      if (kind !== 'booked' || !asked) continue;
      context.moveTo(asked.x, asked.y - RADIUS);
      context.lineTo(x, y + RADIUS);
    }
    context.stroke();
    context.globalAlpha = 1;
    context.lineWidth = 1.75;
    for (const { kind, x, y } of this.marks) {
      context.fillStyle = context.strokeStyle = colors[COLORS[kind] ?? kind];
      SHAPES[kind](context, x, y, RADIUS);
    }
  }

  #bars(context) {
    const colors = palette();
    const { granted, booked, denied, error, late } = this.bars;
    const above = (this.base - TOP) / this.#scale.above;
    const below = (this.surface.height - this.base - 16) / this.#scale.below;
    const stack = (color, values, under, scale, sign) => {
      context.fillStyle = color;
      for (let i = 0; i < values.length; i++) {
        if (values[i] === 0) continue;
        const from = under ? under[i] * scale : 0;
        const high = Math.max(values[i] * scale, 1);
        context.fillRect(i * BAR, sign > 0 ? this.base - from - high : this.base + 1 + from, BAR - 1, high);
      }
    };
    stack(colors.granted, granted, null, above, 1);
    stack(colors.booked, booked, granted, above, 1);
    stack(colors.denied, denied, null, below, -1);
    const failed = error.map((n, i) => n + late[i]);
    stack(colors.error, failed, denied, below, -1);
  }

  /** The fullest window: a band where it lies, under a line with ends, as on a drawing. */
  #band(context, { from, window, most, over }) {
    if (!most) return;
    const colors = palette();
    const left = Math.min(this.surface.x(from, this.#length), this.surface.width - 3);
    const right = Math.max(this.surface.x(from + window, this.#length), left + 3);
    context.fillStyle = over ? colors.over : colors.band;
    context.globalAlpha = over ? 0.16 : 0.14;
    context.fillRect(left, 0, right - left, this.surface.height);
    context.globalAlpha = 1;
    context.fillRect(left, 2, right - left, over ? 2 : 1);
    context.fillRect(left, 0, 1, 7);
    context.fillRect(right - 1, 0, 1, 7);
    context.font = `${over ? 'bold ' : ''}12px system-ui, sans-serif`;
    context.textAlign = 'center';
    context.fillText(count(most), Math.min(Math.max((left + right) / 2, 12), this.surface.width - 12), 15);
    context.textAlign = 'left';
    context.font = FONT;
  }

  #sayLater(context) {
    context.fillStyle = palette().ink;
    context.textAlign = 'right';
    context.fillText(`${count(this.later)} later →`, this.surface.width - 2, this.surface.height - 4);
    context.textAlign = 'left';
  }

  #select(context, selected) {
    const marks = this.#scale.dense ? [] : this.marks.filter((mark) => mark.call === selected);
    const x = Math.round(this.surface.x(this.#calls.get(selected, AT), this.#length)) + 0.5;
    context.strokeStyle = palette().ink;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, this.surface.height);
    context.lineTo(x, marks.length ? marks[0].y + RADIUS + 3 : this.base);
    context.stroke();
    context.lineWidth = 1.5;
    for (const mark of marks) {
      context.beginPath();
      context.arc(mark.x, mark.y, RADIUS + 3, 0, 2 * Math.PI);
      context.stroke();
    }
  }

  #nearestInTime(at) {
    let [low, high] = [0, this.#calls.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#calls.get(middle, AT) < at) low = middle + 1;
      else high = middle;
    }
    if (low > 0 && at - this.#calls.get(low - 1, AT) < this.#calls.get(low, AT) - at) return low - 1;
    return low;
  }
}
