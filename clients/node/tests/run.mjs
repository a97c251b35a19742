// Packs the package, unpacks it beside the clients, and runs the tests with each: node run.mjs [client]..
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

process.chdir(import.meta.dirname ?? new URL('.', import.meta.url).pathname);
const folder = mkdtempSync(join(tmpdir(), 'sluice-pack-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

install();
const acl = execFileSync('go', ['run', './cmd/sluice', 'acl', '--format', 'aclfile'], {
  cwd: '../../..',
  encoding: 'utf8',
  stdio: ['ignore', 'pipe', 'ignore'],
});
const { packages, versionOf } = await import('./clients.js');
const chosen = process.argv.length > 2 ? process.argv.slice(2) : packages;

const once = ['http', 'options', 'package', 'pages', 'quota', 'readme'].map((name) => `${name}.test.js`);
let failed = !(await run('once', once));
const rows = [];
const waiting = [...chosen.entries()];
await Promise.all([runWaiting(), runWaiting()]); // two at a time, because they mostly wait
console.log(['language | client version | vectors passed | traps met | audit', ...rows].join('\n'));
process.exitCode = failed ? 1 : 0;

/** Runs all tests with one client after another, as long as there are any. */
async function runWaiting() {
  for (let next; (next = waiting.shift()); ) {
    const [i, client] = next;
    const passed = await run(client, ['vectors.test.js', 'client.test.js', 'cluster.test.js', 'audit.test.js']);
    failed ||= !passed;
    rows[i] = row(client, passed);
  }
}

/** Installs the clients, and what npm packs beside them. */
function install() {
  const ends = { encoding: 'utf8', timeout: 600000 };
  const npm = (...args) => execFileSync('npm', [...args, '--no-audit', '--no-fund', '--loglevel=error'], ends);
  const installed = 'node_modules/.package-lock.json';
  if (!existsSync(installed) || statSync(installed).mtimeMs < statSync('package-lock.json').mtimeMs) npm('ci');
  const [{ filename }] = JSON.parse(npm('pack', '..', '--json', '--pack-destination', folder));
  rmSync('node_modules/sluice-redis', { recursive: true, force: true });
  mkdirSync('node_modules/sluice-redis');
  execFileSync('tar', ['-xzf', join(folder, filename), '--strip-components=1', '-C', 'node_modules/sluice-redis']);
}

/** Runs test files with a client, and reports whether they passed. */
function run(client, files) {
  const CLIENT = client === 'once' ? 'redis' : client;
  const env = { ...process.env, CLIENT, REPORT: join(folder, client), SLUICE_ACL: acl };
  // A file ends with its tests, whatever a client leaves open, or fails after five minutes.
  const flags = ['--test-timeout=300000', '--test-force-exit', '--test-reporter=spec', '--test-concurrency=2'];
  const child = spawn('node', ['--test', ...flags, ...files], {
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let output = '';
  child.stdout.on('data', (data) => (output += data));
  return new Promise((resolve) => {
    child.on('exit', (code) => {
      if (code !== 0) console.error(`${client}:\n${output}`);
      resolve(code === 0);
    });
  });
}

function row(client, passed) {
  const report = join(folder, client);
  const notes = existsSync(report)
    ? readFileSync(report, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
    : [];
  const of = (what) => notes.filter(([kind]) => kind === what).map(([, text]) => text);
  const [vectors = 'failed'] = of('vectors');
  const cells = ['Node', versionOf(client), vectors, of('trap').sort().join(', '), of('audit').sort().join('; ')];
  return cells.join(' | ') + (passed ? '' : ' | FAILED');
}
