// Copies the scripts and their manifest from the repository into the package, and checks their sums. It writes them as
// a module, too: bundlers find that. npm runs it before it packs.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

const from = new URL('../../scripts/', import.meta.url);
const to = new URL('scripts/', import.meta.url);
rmSync(to, { recursive: true, force: true });
mkdirSync(to);
const texts = {};
for (const line of readFileSync(new URL('SHA256SUMS', from), 'utf8').trim().split('\n')) {
  const [sum, name] = line.split('  ');
  const data = readFileSync(new URL(name, from));
  if (createHash('sha256').update(data).digest('hex') !== sum) {
    throw new Error(`scripts/${name} is not what SHA256SUMS says: go generate ./...`);
  }
  if (!/^[^/]+\.lua$/.test(name) && name !== 'manifest.json') continue;
  writeFileSync(new URL(name, to), data);
  texts[name] = data.toString();
}
const { 'manifest.json': manifest, ...sources } = texts;
const module = [`manifest = ${JSON.stringify(JSON.parse(manifest))}`, `sources = ${JSON.stringify(sources)}`];
writeFileSync(new URL('index.js', to), `'use strict';\n\nexports.${module.join(';\nexports.')};\n`);
