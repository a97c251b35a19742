// What is in the package: the scripts with their sums, both kinds of modules, and types.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import * as sluice from 'sluice-redis';

const require = createRequire(import.meta.url);
const installed = new URL('node_modules/sluice-redis/', import.meta.url);
const here = new URL('.', import.meta.url).pathname;

test('the scripts are those of SHA256SUMS', () => {
  const sums = readFileSync(new URL('../../../scripts/SHA256SUMS', import.meta.url), 'utf8')
    .trim()
    .split('\n');
  const wanted = new Map(sums.map((line) => line.split('  ').reverse()));
  const shipped = readdirSync(new URL('scripts/', installed));
  const belongs = (name) => /^[^/]+\.lua$/.test(name) || name === 'manifest.json'; // no functions
  assert.deepEqual(shipped, [...wanted.keys()].filter(belongs).sort());
  for (const name of shipped) {
    const data = readFileSync(new URL(`scripts/${name}`, installed));
    assert.equal(createHash('sha256').update(data).digest('hex'), wanted.get(name), name);
  }
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
  const types = readFileSync(new URL('src/index.d.ts', installed), 'utf8');
  const named = [...types.matchAll(/^export (?:class|function) (\w+)/gm)].map(([, name]) => name);
  assert.deepEqual(named.sort(), Object.keys(sluice).sort());
});
