/** The time line on which traffic is made: painted bins of the rate, and single calls. Pointer and keyboard. */
import { FONT, Surface, SHAPES, axisNames, clockSteps, gridLines, palette } from './canvas.js';
import { atNextFrame, byId } from './dom.js';
import { duration, goDuration, parseDuration, short } from './format.js';
import * as state from './state.js';

const TOP = 35; // the largest value of a bin: 3.5 times the rate
const AXIS = 20; // CSS pixels for the names of times, and for single calls above them
const NEAR = 7; // CSS pixels: a click that near to a call takes it away
const LEVELS = [0, 1, 2, 3, 5, 7, 10, 12, 15, 20, 25, 30, 35]; // what the arrow keys go through

const canvas = byId('stage');
let surface;
let cursor = 0; // the bin that the keyboard changes
let axis = 0; // how long the lanes' axis is, for traffic of the length for which it is
let axisFor = 0;
let pointer = null; // where it is, while it is over the picture
let painting = null; // the bins while the pointer is down, and the bin it was in

/** Takes the axis of the lanes, so that times are below each other. */
export function align(run) {
  if (axis === run.axis && axisFor === run.opened.duration) return;
  [axis, axisFor] = [run.axis, run.opened.duration];
  redraw();
}

/** How long the axis is: as the lanes', unless their run is of other traffic. */
const whole = () => (axisFor === state.length() ? axis : state.length());

/** Steps of the server's clock, as the link says them. @returns {{at: number, by: number}[]} */
export function steps() {
  const pairs = state
    .get('step')
    .split(',')
    .filter(Boolean)
    .map((pair) => pair.split(':').map(parseDuration));
  return pairs.filter(([at, by]) => at >= 0 && !Number.isNaN(by)).map(([at, by]) => ({ at, by }));
}

export function start() {
  surface = new Surface(canvas, draw);
  canvas.addEventListener('pointerdown', pressed);
  canvas.addEventListener('pointermove', moved);
  for (const end of ['pointerup', 'pointercancel']) canvas.addEventListener(end, () => (painting = null));
  canvas.addEventListener('pointerleave', () => (pointer = redraw()));
  canvas.addEventListener('keydown', keyed);
  canvas.addEventListener('focus', redraw);
  canvas.addEventListener('blur', redraw);
  byId('flat').addEventListener('click', () => state.set({ paint: '', calls: '' }));
  redraw();
}

export const redraw = atNextFrame(draw);

const clicking = () => document.querySelector('input[name=pointer]:checked').value === 'click';
const floor = () => surface.height - AXIS - 12; // where the bars stand

function draw() {
  const context = surface.clear();
  const colors = palette();
  const [length, bins] = [state.length(), state.bins()];
  const scale = (floor() - 14) / TOP;
  const times = gridLines(surface, whole(), floor());
  const width = (surface.x(length, whole()) - surface.x(0, whole())) / bins.length;
  for (const [i, value] of bins.entries()) {
    const x = surface.x((i * length) / bins.length, whole());
    const focused = i === cursor && document.activeElement === canvas;
    context.fillStyle = focused ? colors.ink : colors.accent;
    context.globalAlpha = focused ? 1 : state.rate() > 0 ? 0.75 : 0.2;
    context.fillRect(x, floor() - value * scale, Math.max(width - (width > 4 ? 1 : 0), 0.5), value * scale);
    if (focused) context.fillRect(x, floor() + 1, Math.max(width - 1, 2), 3);
  }
  context.globalAlpha = 1;
  ruler(context, scale);
  clockSteps(surface, whole(), steps(), floor(), true);
  singles(context, length);
  axisNames(surface, whole(), times);
  if (pointer) readout(context, length);
  describe(length, bins);
}

/** Lines at once and three times the rate, with their calls a second. */
function ruler(context, scale) {
  const colors = palette();
  for (const times of [1, 3]) {
    const y = Math.round(floor() - times * 10 * scale) + 0.5;
    context.strokeStyle = colors.muted;
    context.globalAlpha = 0.6;
    context.setLineDash([1, 3]);
    context.beginPath();
    context.moveTo(0, y);
    context.lineTo(surface.width, y);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
    context.fillStyle = colors.ink;
    context.textAlign = 'right';
    context.fillText(`${short(times * state.rate())} / s`, surface.width - 4, y - 3);
  }
  context.textAlign = 'left';
  context.fillStyle = colors.muted;
  context.fillRect(0, floor(), surface.width, 1);
}

/** Single calls, and the bunches, as marks between bars and axis. */
function singles(context, length) {
  const colors = palette();
  const y = floor() + 7;
  context.fillStyle = colors.ink;
  for (const at of state.calls()) if (at <= length) SHAPES.error(context, surface.x(at, whole()), y, 4);
  const period = parseDuration(state.get('bunch').split(':')[0]);
  context.fillStyle = colors.denied;
  for (let i = 0; period > 0 && i * period <= length && i < 1000; i++) {
    SHAPES.booked(context, surface.x(i * period, whole()), y, 4);
  }
}

function describe(length, bins) {
  cursor = Math.min(cursor, bins.length - 1);
  const at = (cursor * length) / bins.length;
  canvas.setAttribute('aria-valuemax', TOP);
  canvas.setAttribute('aria-valuenow', bins[cursor]);
  const rate = short((bins[cursor] / 10) * state.rate());
  const until = duration(at + length / bins.length);
  canvas.setAttribute('aria-valuetext', `${duration(at)} to ${until}: ${rate} calls a second`);
}

function pressed(event) {
  if (event.button !== 0) return;
  if (clicking()) return toggleCall(Math.min(surface.time(event.offsetX, whole()), state.length()), true);
  canvas.setPointerCapture(event.pointerId);
  painting = { bins: state.bins(), last: null };
  paint(event);
}

function moved(event) {
  pointer = { x: event.offsetX, y: event.offsetY };
  if (painting) paint(event);
  redraw();
}

/** Says beside the pointer what it points at. */
function readout(context, length) {
  const at = surface.time(pointer.x, whole());
  if (at > length) return;
  const text = clicking() ? duration(at) : `${duration(at)}: ${short((valueAt(pointer.y) / 10) * state.rate())} / s`;
  const right = pointer.x > surface.width - 130;
  context.font = `bold ${FONT}`;
  context.textAlign = right ? 'right' : 'left';
  context.fillStyle = palette().ink;
  context.fillText(text, pointer.x + (right ? -10 : 10), Math.max(pointer.y - 8, 12));
}

/** The value of a bin whose top is at y. */
const valueAt = (y) => Math.min(Math.max(Math.round(((floor() - y) * TOP) / (floor() - 14)), 0), TOP);

/** Sets the bins between the last place of the pointer and this one. */
function paint({ offsetX, offsetY }) {
  const { bins } = painting;
  const value = valueAt(offsetY);
  const bin = Math.min(Math.floor((surface.time(offsetX, whole()) / state.length()) * bins.length), bins.length - 1);
  const last = painting.last ?? { bin, value };
  const step = Math.sign(bin - last.bin);
  for (let i = last.bin; i !== bin; i += step) {
    bins[i] = Math.round(last.value + ((value - last.value) * (i - last.bin)) / (bin - last.bin));
  }
  bins[bin] = value;
  cursor = bin;
  painting.last = { bin, value };
  state.setBins(bins);
}

/** Adds a call at a time, or takes away the one that is there. */
function toggleCall(at, byPointer) {
  const near = byPointer ? (NEAR * whole()) / surface.width : 1;
  const calls = state.calls();
  const there = calls.findIndex((call) => Math.abs(call - at) < near);
  if (there >= 0) calls.splice(there, 1);
  else if (calls.length < state.MAX_CALLS) calls.push(Math.round(at / 1e3) * 1e3);
  state.set({
    calls: calls
      .sort((a, b) => a - b)
      .map(goDuration)
      .join(','),
  });
}

function keyed(event) {
  const bins = state.bins();
  const move = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10, Home: -bins.length, End: bins.length }[
    event.key
  ];
  if (move) cursor = Math.min(Math.max(cursor + move, 0), bins.length - 1);
  else if (event.key === 'ArrowUp') bins[cursor] = LEVELS.find((level) => level > bins[cursor]) ?? TOP;
  else if (event.key === 'ArrowDown') bins[cursor] = LEVELS.findLast((level) => level < bins[cursor]) ?? 0;
  else if (event.key === 'Enter') toggleCall(((cursor + 0.5) * state.length()) / bins.length, false);
  else return;
  event.preventDefault();
  if (event.key.startsWith('Arrow') && !move) state.setBins(bins);
  redraw();
}
