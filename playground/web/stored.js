/** What a limiter stores, drawn as it is: a log on a small axis, a ring of cells, a level, a number, or text. */
import { Surface, palette } from './canvas.js';
import { make, setText } from './dom.js';
import { count, duration, short } from './format.js';

/** A small picture of one key, with a line of text. */
export class Stored {
  constructor() {
    this.canvas = make('canvas', { class: 'state', role: 'img', 'aria-label': 'nothing stored yet' });
    this.text = make('span', { class: 'hint' });
    this.element = make('div', { class: 'stored' }, this.canvas, this.text);
    this.surface = null;
  }

  /** @param {any} stored what the engine says @param {number} window microseconds */
  show(stored, window) {
    this.surface ??= new Surface(this.canvas, () => this.draw());
    const keys = stored?.keys ?? [];
    const key = keys.find(({ entries, cells, level, leases }) => entries || cells || level || leases) ?? keys[0];
    this.now = stored?.now ?? 0;
    this.window = window;
    this.key = key;
    const words = key ? describe(key, this.now, window) : 'nothing stored';
    setText(this.text, words);
    this.text.title = keys.map(({ key, type, text }) => `${key} (${type}) ${text}`).join('\n');
    this.canvas.setAttribute('aria-label', words);
    this.canvas.hidden = !(key?.entries || key?.cells || key?.level || key?.leases);
    this.draw();
  }

  draw() {
    if (!this.key || this.canvas.hidden) return;
    const { entries, cells, level, leases } = this.key;
    const context = this.surface.clear();
    const { width, height } = this.surface;
    if (entries) log(context, width, height, entries, this.now, this.window);
    else if (cells) ring(context, width, height, cells);
    else if (level) bucket(context, width, height, level);
    else if (leases) slots(context, width, height, leases, this.now);
  }
}

function describe({ type, entries, cells, level, leases, value, text, more, expires }, now, window) {
  const left = expires > now ? `, expires in ${duration(expires - now)}` : '';
  if (entries) {
    const booked = entries.filter(({ at }) => at > now).length;
    const live = entries.filter(({ at }) => at > now - window).length - booked;
    const all = `${count(entries.length)}${more ? ' and more' : ''} entries`;
    return `${all}, ${count(live)} in the window${booked ? `, ${count(booked)} booked` : ''}${left}`;
  }
  if (cells) return `ring of ${count(cells.counts.length)} slices of ${duration(cells.slice)}${left}`;
  if (leases) return `${count(leases.ends.length)} of ${count(leases.slots)} slots held${left}`;
  if (level) return `${short(level.used)} of ${count(level.capacity)} used${left}`;
  if (value)
    return (
      Object.entries(value)
        .map(([name, field]) => `${name} ${field}`)
        .join(', ') + left
    );
  return `${type} ${text}${left}`;
}

/** Entries as strokes over time; the window that ends now is shaded, what lies right of now is booked. */
function log(context, width, height, entries, now, window) {
  const colors = palette();
  const first = Math.min(now - 1.15 * window, ...entries.slice(0, 1).map(({ at }) => Math.max(at, now - 3 * window)));
  const last = Math.max(now, entries.at(-1)?.at ?? now) + 0.1 * window;
  const x = (at) => ((at - first) / (last - first)) * width;
  context.fillStyle = colors.band;
  context.globalAlpha = 0.2;
  context.fillRect(x(now - window), 0, x(now) - x(now - window), height);
  context.globalAlpha = 1;
  for (const { at, permits } of entries) {
    const live = at > now - window;
    context.fillStyle = at > now ? colors.booked : live ? colors.granted : colors.muted;
    const high = Math.min(height - 8, (height - 14) * (0.7 + 0.1 * Math.min(permits ?? 1, 4)));
    context.fillRect(x(at) - 0.75, height - 4 - high, 1.5, high);
  }
  context.fillStyle = colors.muted;
  context.fillRect(0, height - 4, width, 1);
  context.fillStyle = colors.ink;
  context.fillRect(x(now), 0, 1, height);
}

/** The cells of a ring, unrolled: the fuller, the stronger. */
function ring(context, width, height, { counts }) {
  const colors = palette();
  const most = Math.max(1, ...counts);
  const cell = width / counts.length;
  for (const [i, permits] of counts.entries()) {
    context.fillStyle = permits ? colors.granted : colors.line;
    context.globalAlpha = permits ? 0.35 + (0.65 * permits) / most : 1;
    const high = permits ? 6 + ((height - 8) * permits) / most : 4;
    context.fillRect(i * cell, height - high, Math.max(cell - (cell > 3 ? 1 : 0), 0.75), high);
  }
  context.globalAlpha = 1;
}

/** The slots that are held, a line each: from now until its lease ends. */
function slots(context, width, height, { ends, slots }, now) {
  const colors = palette();
  const pitch = Math.min(height / Math.max(ends.length, slots), 6);
  const last = ends.at(-1) - now;
  context.fillStyle = colors.granted;
  for (const [i, end] of ends.entries()) {
    context.fillRect(0, height - (i + 1) * pitch, Math.max(((end - now) / last) * width, 1), Math.max(pitch - 1, 0.5));
  }
  context.fillStyle = colors.line;
  for (let i = ends.length; i < slots && pitch >= 2; i++) context.fillRect(0, height - (i + 1) * pitch, 3, pitch - 1);
}

/** A bucket on its side, filled by what is used. */
function bucket(context, width, height, { used, capacity }) {
  const colors = palette();
  const part = Math.min(Math.max(used / capacity, 0), 1);
  context.fillStyle = colors.granted;
  context.fillRect(1, 7, part * (width - 2), height - 14);
  context.strokeStyle = colors.muted;
  context.strokeRect(0.5, 6.5, width - 1, height - 13);
  context.fillStyle = colors.muted;
  for (let i = 1; capacity <= 40 && i < capacity; i++) context.fillRect((i * width) / capacity, height - 11, 1, 4);
}
