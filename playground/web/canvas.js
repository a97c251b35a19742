/** Canvases that are sharp on every screen, in the colours of the style sheet, over one axis of time. */
import { duration, niceStep } from './format.js';

export const FONT = '11px system-ui, sans-serif';
export const PAD = 9; // CSS pixels left and right of the axis, so that marks at its ends are whole

const NAMES = ['ink', 'muted', 'line', 'panel', 'granted', 'booked', 'denied', 'error', 'over', 'accent', 'band'];
let colors = null;

/** The colours of the theme in force. @returns {Record<string, string>} */
export function palette() {
  if (colors) return colors;
  const style = getComputedStyle(document.documentElement);
  colors = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  return colors;
}

/** To be called when the theme changes. */
export const forgetPalette = () => (colors = null);

/** A canvas with its size in CSS pixels; redraw is called when that changes. */
export class Surface {
  width = 0;
  height = 0;

  constructor(canvas, redraw) {
    this.canvas = canvas;
    this.context = canvas.getContext('2d');
    new ResizeObserver(() => this.#fit() && redraw()).observe(canvas);
    this.#fit();
  }

  #fit() {
    const { clientWidth, clientHeight } = this.canvas;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [Math.round(clientWidth * ratio), Math.round(clientHeight * ratio)];
    if (width === this.canvas.width && height === this.canvas.height && this.width === clientWidth) return false;
    Object.assign(this.canvas, { width, height });
    Object.assign(this, { width: clientWidth, height: clientHeight });
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return true;
  }

  /** Begins a picture: an empty canvas and the usual font. */
  clear() {
    const { context } = this;
    context.clearRect(0, 0, this.width, this.height);
    context.font = FONT;
    context.textBaseline = 'alphabetic';
    context.textAlign = 'left';
    context.lineWidth = 1;
    return context;
  }

  /** Where a time lies, of `length` in all. */
  x(at, length) {
    return PAD + (at / length) * (this.width - 2 * PAD);
  }

  /** The time at a place, within the axis. */
  time(x, length) {
    return Math.min(Math.max((x - PAD) / (this.width - 2 * PAD), 0), 1) * length;
  }
}

/** Thin lines where the axis has its marks. Returns those times. */
export function gridLines(surface, length, bottom) {
  const { context } = surface;
  const step = niceStep(length, Math.max(2, surface.width / 90));
  const times = [];
  for (let i = 0; i * step <= length * 1.0001; i++) times.push(i * step);
  context.fillStyle = palette().line;
  for (const time of times) context.fillRect(Math.round(surface.x(time, length)), 0, 1, bottom);
  return times;
}

/** Names the times of an axis along the bottom. */
export function axisNames(surface, length, times) {
  const { context, width, height } = surface;
  context.fillStyle = palette().muted;
  for (const [i, time] of times.entries()) {
    context.textAlign = i === 0 ? 'left' : surface.x(time, length) > width - 30 ? 'right' : 'center';
    context.fillText(time === 0 ? '0' : duration(time), surface.x(time, length), height - 4);
  }
  context.textAlign = 'left';
}

/** A dashed line down where the server's clock steps. @param {{at: number, by: number}[]} steps */
export function clockSteps(surface, length, steps, bottom, named) {
  const { context } = surface;
  context.strokeStyle = context.fillStyle = palette().accent;
  context.setLineDash([3, 3]);
  for (const { at, by } of steps) {
    const x = Math.round(surface.x(at, length)) + 0.5;
    context.beginPath();
    context.moveTo(x, 0);
    context.lineTo(x, bottom);
    context.stroke();
    if (named) context.fillText(`clock ${by < 0 ? '' : '+'}${duration(by)}`, x + 4, 11);
  }
  context.setLineDash([]);
}

const TAU = 2 * Math.PI;

/** The marks, each with a shape of its own: it can be told without its colour. */
export const SHAPES = {
  granted(c, x, y, r) {
    c.beginPath();
    c.arc(x, y, r, 0, TAU);
    c.fill();
  },
  booked(c, x, y, r) {
    c.beginPath();
    c.moveTo(x, y - r - 1);
    c.lineTo(x + r + 1, y);
    c.lineTo(x, y + r + 1);
    c.lineTo(x - r - 1, y);
    c.fill();
  },
  asked(c, x, y, r) {
    c.beginPath();
    c.arc(x, y, r - 0.75, 0, TAU);
    c.stroke();
  },
  denied(c, x, y, r) {
    c.beginPath();
    c.moveTo(x - r + 0.6, y - r + 0.6);
    c.lineTo(x + r - 0.6, y + r - 0.6);
    c.moveTo(x + r - 0.6, y - r + 0.6);
    c.lineTo(x - r + 0.6, y + r - 0.6);
    c.stroke();
  },
  ended(c, x, y, r) {
    c.beginPath();
    c.moveTo(x, y - r);
    c.lineTo(x, y + r);
    c.stroke();
  },
  late(c, x, y, r) {
    SHAPES.ended(c, x, y, r);
    c.fillRect(x - r, y - 0.75, 2 * r, 1.5);
  },
  error(c, x, y, r) {
    c.beginPath();
    c.moveTo(x, y - r);
    c.lineTo(x + r, y + r - 0.5);
    c.lineTo(x - r, y + r - 0.5);
    c.fill();
  },
};
