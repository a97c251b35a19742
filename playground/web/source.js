/** The source pane: the script of the selected lane, the lines that the call ran, what was sent and replied. */
import { copyAs, languages } from './copy.js';
import { byId, copyText, make, setText } from './dom.js';
import { count } from './format.js';
import * as lanes from './lanes.js';
import { Stored } from './stored.js';

const KEYWORDS =
  'and|break|do|else|elseif|end|false|for|function|if|in|local|nil|not|or|repeat|return|then|true|until|while';
const TOKEN = new RegExp(`(--.*$)|("(?:\\\\.|[^"\\\\])*"|'(?:\\\\.|[^'\\\\])*')|\\b(${KEYWORDS})\\b`, 'g');
const CLASSES = [, 'comment', 'string', 'keyword'];

let shown = null; // the lane whose source is there
let lines = [];
const stored = new Stored();

export function start() {
  byId('call-stored').append(stored.element);
  byId('previous-call').addEventListener('click', () => lanes.step(-1));
  byId('next-call').addEventListener('click', () => lanes.step(1));
}

/** Shows the script of a lane; no call is marked yet. @param {any} lane */
export function showLane(lane) {
  if (shown && shown.file === lane.file && shown.source === lane.source) return;
  shown = lane;
  setText(byId('source-title'), lane.title);
  setText(byId('source-file'), lane.file);
  setText(byId('call-sha1'), lane.sha1);
  lines = lane.source
    .replace(/\n$/, '')
    .split('\n')
    .map((text, i) => make('li', { 'data-line': i + 1 }, coloured(text)));
  byId('source').replaceChildren(...lines);
}

/** A line with its words in classes. Long brackets over several lines are rare in limiters, and stay plain. */
function coloured(text) {
  const parts = document.createDocumentFragment();
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    const kind = CLASSES[[1, 2, 3].find((group) => match[group] !== undefined)];
    parts.append(text.slice(end, match.index), make('span', { class: kind }, match[0]));
    end = match.index + match[0].length;
  }
  parts.append(text.slice(end));
  return parts;
}

export const showWaiting = () => setText(byId('call-title'), 'The calls before this one are made again ..');

/** Shows one call. @param {any} lane @param {any} call the engine's detail @param {string} text the call in words */
export function showCall(lane, call, text) {
  showLane(call.second ? { ...lane, ...lane.second } : lane);
  const where = call.process ? `, process ${call.process}` : '';
  setText(byId('call-title'), `Call ${count(call.index + 1)}: ${text}${where}`);
  setText(byId('call-sha1'), call.sha1);
  const ran = new Set(call.lines);
  let first = null;
  for (const [i, line] of lines.entries()) {
    line.classList.toggle('ran', ran.has(i + 1));
    if (!first && ran.has(i + 1)) first = line;
  }
  const body = lines.find((line) => line.matches('.ran') && !/^local function/.test(line.textContent)) ?? first;
  if (body) byId('source').scrollTop = Math.max(body.offsetTop - 40, 0);
  setText(byId('ran'), `${ran.size} lines ran${call.instructions ? `, ${count(call.instructions)} instructions` : ''}`);
  table(byId('call-sent'), [
    ...(call.keys.length ? [] : [['nothing', 'The process decided: no command was sent.']]),
    ...call.keys.map((key, i) => [`KEYS[${i + 1}]`, key]),
    ...(call.args ?? []).map(({ name, value }, i) => [`ARGV[${i + 1}] ${name}`, value]),
  ]);
  table(byId('call-reply'), replyRows(call));
  byId('call-commands').replaceChildren(...call.commands.map((words) => make('li', {}, words.join(' '))));
  stored.show(call.stored, lane.promise[0]?.window || 1e6);
  byId('copy').replaceChildren(
    ...languages(lane, call).map((language) => {
      const button = make('button', { type: 'button', 'data-copy': language }, language);
      button.addEventListener('click', () => copyText(button, copyAs(language, lane, call)));
      return button;
    }),
  );
}

function replyRows({ reply, error }) {
  if (error) return [['error', error]];
  return Array.isArray(reply) ? reply.map(({ name, value }) => [name, value]) : [['reply', reply ?? 'nil']];
}

const table = (element, rows) =>
  element.replaceChildren(
    ...rows.map(([name, value]) => make('tr', {}, make('th', { scope: 'row' }, name), make('td', {}, String(value)))),
  );
