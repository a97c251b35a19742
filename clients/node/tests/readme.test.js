// Follows README.md as a new user does: packs, installs in an empty folder, and runs every block.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startRedis } from './servers.js';

const readme = readFileSync(new URL('../README.md', import.meta.url), 'utf8');
const clients = fileURLToPath(new URL('../../', import.meta.url));
const installed = fileURLToPath(new URL('node_modules/', import.meta.url));

/** Returns the blocks of a language. */
const blocks = (language) =>
  [...readme.matchAll(/^```(\w+)\n([^]*?)^```$/gm)].filter(([, of]) => of === language).map(([, , text]) => text);

/** Returns what the comments behind console.log say that it prints. */
const printed = (text) => [...text.matchAll(/console\.log\(.*\/\/ (.*)$/gm)].map(([, comment]) => comment).join('\n');

test('README.md', async (t) => {
  const languages = new Set([...readme.matchAll(/^```(\w+)$/gm)].map(([, language]) => language));
  assert.deepEqual(languages, new Set(['sh', 'js']), 'a block that nothing runs');
  const redis = await startRedis(t);
  const folder = mkdtempSync(join(tmpdir(), 'sluice-readme-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  symlinkSync(clients, join(folder, 'clients'));
  writeFileSync(join(folder, 'package.json'), '{"private": true}');
  const run = (command, ...args) => execFileSync(command, args, { cwd: folder, encoding: 'utf8', timeout: 600000 });
  const quiet = 'export npm_config_loglevel=error npm_config_audit=false npm_config_fund=false';
  const packed = run('npm', 'pack', './clients/node', '--silent').trim();
  const install = blocks('sh').join('');
  assert.match(install, /^npm install sluice-redis /);
  run('sh', '-ec', `${quiet}\n${install.replace('sluice-redis', `./${packed}`)}`);
  for (const other of ['ioredis', 'express', 'fastify']) {
    symlinkSync(join(installed, other), join(folder, 'node_modules', other));
  }

  const source = blocks('js').join('\n').replaceAll('redis://localhost:6379', redis.url);
  assert.ok(blocks('js').length >= 9);
  writeFileSync(join(folder, 'readme.mjs'), `${source}\nprocess.exit();\n`);
  assert.equal(run('node', 'readme.mjs').trim(), printed(source));
});
