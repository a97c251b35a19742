// Builds the page: node build.mjs [folder]. Files are named by their content; a second run writes the same bytes.
import { build } from 'esbuild';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';

const out = resolve(process.argv[2] ?? join(import.meta.dirname, 'dist'));
process.chdir(import.meta.dirname);

const run = (...words) =>
  execFileSync(words[0], words.slice(1), {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
const wasmExec = join(run('go', 'env', 'GOROOT').trim(), 'lib/wasm/wasm_exec.js');
const rows = [];

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });

const engine = makeEngine();
const recorded = write('recorded', 'json', run('go', 'run', './native', '-record', ''));
const worker = write('worker', 'js', await bundle('worker.js', { ENGINE: { url: engine.url, bytes: engine.bytes } }));
const app = write('app', 'js', await bundle('main.js', { WORKER_URL: worker.url, RECORDED_URL: recorded.url }));
const style = write('style', 'css', await bundle('style.css', {}));
writeAs('index.html', page());
table();

/** Go's part. It is built outside of dist, which holds nothing but what is served. */
function makeEngine() {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-engine-'));
  try {
    const file = join(folder, 'engine.wasm');
    run('sh', 'engine/build.sh', file);
    return write('engine', 'wasm', readFileSync(file));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Bundles an entry of web/, with constants of the build in it. */
async function bundle(entry, define) {
  const { outputFiles } = await build({
    entryPoints: [join('web', entry)],
    bundle: true,
    minify: true,
    write: false,
    format: entry === 'worker.js' ? 'iife' : 'esm',
    target: 'es2022',
    alias: { wasm_exec: wasmExec },
    legalComments: 'none',
    charset: 'utf8',
    logLevel: 'warning',
    define: Object.fromEntries(Object.entries(define).map(([name, value]) => [name, JSON.stringify(value)])),
  });
  return outputFiles[0].contents;
}

/** The icon is in the page: from a server without caching, browsers fetch it again whenever the link changes. */
function page() {
  const icon = readFileSync('web/icon.svg', 'utf8').replaceAll('\n', '');
  const reference = { ICON: { url: `data:image/svg+xml,${encodeURIComponent(icon)}` }, STYLE: style, SCRIPT: app };
  return readFileSync('web/index.html', 'utf8').replace(/"(ICON|STYLE|SCRIPT)"/g, (_, name) => {
    const { url, sha384 } = reference[name];
    return sha384 ? `"${url}" integrity="sha384-${sha384}"` : `"${url}"`;
  });
}

/** Writes a file whose name holds its hash, as "app-0123456789ab.js". */
function write(base, ext, content) {
  const hash = createHash('sha256').update(content).digest('hex').slice(0, 12);
  return writeAs(`${base}-${hash}.${ext}`, content);
}

function writeAs(name, content) {
  const raw = Buffer.from(content);
  const gz = gzipSync(raw, { level: 9 });
  const br = brotliCompressSync(raw, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: 11,
      [constants.BROTLI_PARAM_LGWIN]: 24,
      [constants.BROTLI_PARAM_SIZE_HINT]: raw.length,
    },
  });
  writeFileSync(join(out, name), raw);
  writeFileSync(join(out, `${name}.gz`), gz);
  writeFileSync(join(out, `${name}.br`), br);
  rows.push([name, raw.length, gz.length, br.length]);
  return { url: `./${name}`, bytes: raw.length, sha384: createHash('sha384').update(raw).digest('base64') };
}

function table() {
  const sum = (i) => rows.reduce((total, row) => total + row[i], 0);
  const lines = [['bytes', 'raw', 'gzip', 'brotli'], ...rows, ['all', sum(1), sum(2), sum(3)]];
  for (const [name, ...sizes] of lines)
    console.log(name.padEnd(28) + sizes.map((size) => String(size).padStart(12)).join(''));
}
