// The engine for browsers decides as the same code without a browser: node --test engine.test.mjs. It needs Go.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync } from 'node:zlib'; // of quality 11, unless told otherwise
import { GROUPS } from '../web/catalog.js';
import { links } from './links.mjs';

const playground = join(import.meta.dirname, '..');
const size = 64; // bytes of a record
let folder, native, engine;

const run = (words, options = {}) =>
  execFileSync(words[0], words.slice(1), { encoding: 'utf8', maxBuffer: 1 << 30, ...options });

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-engine-'));
  native = join(folder, 'native');
  run(['go', 'build', '-o', native, '.'], { cwd: join(playground, 'native') });
  run(['sh', join(playground, 'engine/build.sh'), join(folder, 'engine.wasm')]);
  await import(pathToFileURL(join(run(['go', 'env', 'GOROOT']).trim(), 'lib/wasm/wasm_exec.js')));
  const go = new globalThis.Go();
  const { instance } = await WebAssembly.instantiate(readFileSync(join(folder, 'engine.wasm')), go.importObject);
  go.run(instance);
  engine = globalThis.sluice;
});

after(() => rmSync(folder, { recursive: true }));

/** Runs a link in the engine, as the page does: in steps of a few milliseconds, with audits on the way. */
function play(link) {
  const opened = JSON.parse(engine.open(link));
  if (opened.error) return opened;
  const into = new Uint8Array(size * 500);
  const records = [];
  for (let n = engine.step(into, 5); n > 0; n = engine.step(into, 5)) {
    const numbers = new Float64Array(into.slice(0, n * size).buffer);
    for (let i = 0; i < n; i++) records.push(Array.from(numbers.subarray(8 * i, 8 * i + 8)));
    if (records.length % 3 === 0) engine.audit();
  }
  return { opened, records, audit: JSON.parse(engine.audit()) };
}

test('50 links decide in WebAssembly as they do in Go, call by call', () => {
  const all = links(50, 15);
  const want = run([native], { input: all.join('\n') + '\n' }).trim().split('\n').map((line) => JSON.parse(line));
  assert.equal(want.length, all.length);
  let decisions = 0;
  all.forEach((link, i) => {
    assert.deepEqual(play(link), want[i], link);
    decisions += want[i].records?.length ?? assert.fail(`${link}: ${want[i].error}`);
  });
  assert.ok(decisions > 5000, `only ${decisions} decisions`);
});

test('what is stored, and the last call, are those of Go', () => {
  for (const link of links(10, 16)) {
    const want = JSON.parse(run([native, '-record', link]));
    const { opened, audit } = play(link);
    assert.deepEqual({ opened, audit }, { opened: want.opened, audit: want.audit });
    opened.lanes.forEach((lane, i) => {
      assert.deepEqual(JSON.parse(engine.stored(i)), want.stored[i], `${link}: ${lane.id}`);
      assert.deepEqual(JSON.parse(engine.detail(i, -1, 60_000)), want.detail[i], `${link}: ${lane.id}`);
    });
  }
});

test('a call that is not ready is asked for again', () => {
  const { audit } = play('lanes=gcra');
  assert.equal(engine.detail(0, -1, -1), '');
  assert.equal(JSON.parse(engine.detail(0, -1, 60_000)).index, audit.lanes[0].calls - 1);
});

test('a wrong link is an error that names the parameter', () => {
  assert.deepEqual(JSON.parse(engine.open('rate=fast')), {
    error: 'rate "fast": want 0 to 10000 calls a second, with up to three decimal places', parameter: 'rate',
  });
  assert.equal(engine.step(new Uint8Array(size), 5), 0);
  assert.match(JSON.parse(engine.audit()).error, /no run/);
});

test('an endless loop ends, and the engine goes on', () => {
  const { audit } = play(new URLSearchParams({ lanes: 'own,list_log', lua: 'while true do end', rate: 50 }).toString());
  assert.match(audit.lanes[0].error, /still running after 1000000 instructions/);
  assert.equal(audit.lanes[0].errors, audit.lanes[0].calls);
  assert.equal(audit.lanes[1].errors, 0);
});

test('the page calls the limiters what the engine calls them', () => {
  for (const [id, title] of GROUPS.flatMap(([, limiters]) => limiters)) {
    const { opened } = play(new URLSearchParams({ lanes: id, lua: 'return 1', for: '1s' }).toString());
    assert.equal(opened.lanes[0].title, title);
  }
});

test('the engine is at most 2.1 MB, as brotli compresses it', () => {
  const { length } = brotliCompressSync(readFileSync(join(folder, 'engine.wasm')));
  assert.ok(length <= 2_100_000, `${length} bytes`);
});
