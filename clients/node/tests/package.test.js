// What is in the package: the scripts with their sums, both kinds of modules, and types.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import * as esbuild from 'esbuild';
import * as sluice from 'sluice-redis';
import { startRedis } from './servers.js';

const require = createRequire(import.meta.url);
const installed = new URL('node_modules/sluice-redis/', import.meta.url);
const here = new URL('.', import.meta.url).pathname;

test('the scripts are those of SHA256SUMS', () => {
  const sums = readFileSync(new URL('../../../scripts/SHA256SUMS', import.meta.url), 'utf8')
    .trim()
    .split('\n');
  const wanted = new Map(sums.map((line) => line.split('  ').reverse()));
  const shipped = readdirSync(new URL('scripts/', installed)).filter((name) => name !== 'index.js');
  const belongs = (name) => /^[^/]+\.lua$/.test(name) || name === 'manifest.json'; // no functions
  assert.deepEqual(shipped, [...wanted.keys()].filter(belongs).sort());
  for (const name of shipped) {
    const data = readFileSync(new URL(`scripts/${name}`, installed));
    assert.equal(createHash('sha256').update(data).digest('hex'), wanted.get(name), name);
  }
});

test('a bundle runs: it finds the scripts, and errors of renamed classes', async (t) => {
  const redis = await startRedis(t);
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bundle-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const program = `import { createClient } from 'redis';
    import { Limits } from 'sluice-redis';
    const client = await createClient({ url: '${redis.url}' }).connect();
    const log = new Limits(client).listLog('bundle', { permits: 1, window: '1m' });
    const { granted } = await log.allow('ada');
    console.log(granted, await log.allowN('ada', 2).catch((error) => error.name));
    client.destroy();`;
  const banner = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";
  const outfile = join(folder, 'bundle.mjs');
  await esbuild.build({
    stdin: { contents: program, resolveDir: here }, outfile, bundle: true, minify: true, platform: 'node',
    format: 'esm', banner: { js: banner },
  });
  assert.equal(execFileSync('node', [outfile], { encoding: 'utf8' }), 'true ExceedsLimitError\n');
});

test('import and require give the same', () => {
  const required = require('sluice-redis');
  assert.deepEqual(Object.keys(sluice).sort(), Object.keys(required).sort());
  for (const [name, value] of Object.entries(sluice)) assert.equal(value, required[name], name);
});

test('the package has no dependency, and what a user needs', () => {
  const { dependencies, version } = require('sluice-redis/package.json');
  assert.equal(dependencies, undefined);
  const files = ['CHANGELOG.md', 'LICENSE', 'README.md', 'package.json', 'scripts', 'src'];
  assert.deepEqual(readdirSync(installed).sort(), files);
  assert.ok(readFileSync(new URL('CHANGELOG.md', installed), 'utf8').includes(`## ${version}`));
});

test('types', () => {
  const tsc = require.resolve('typescript/bin/tsc');
  // sample.mts has the types of Express and Fastify, which take long to check and are not ours.
  for (const [sample, skip] of [['sample.mts', 'true'], ['sample.cts', 'false']]) {
    const options = ['--noEmit', '--strict', '--target', 'es2022', '--lib', 'es2022,esnext.disposable,dom'];
    const modules = ['--module', 'nodenext', '--types', 'node', '--skipLibCheck', skip];
    const command = [tsc, ...options, ...modules, `types/${sample}`];
    execFileSync('node', command, { cwd: here, stdio: ['ignore', 'inherit', 'inherit'] });
  }
});

test('types and code name the same', () => {
  const types = ['index', 'http'].map((name) => readFileSync(new URL(`src/${name}.d.ts`, installed), 'utf8')).join('');
  const named = [...types.matchAll(/^export (?:class|function) (\w+)/gm)].map(([, name]) => name);
  assert.deepEqual(named.sort(), Object.keys(sluice).sort());
});
