// Runs the tests of one folder on Node's own runner, one file at a time.
//
//     node tests/run.mjs unit|browser [NAME]
//     node tests/run.mjs screenshots

import { spawnSync } from 'node:child_process';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

import { build } from 'esbuild';

const [job, wanted] = process.argv.slice(2);
const here = new URL('.', import.meta.url).pathname;
const kind = job === 'screenshots' ? 'browser' : job;
const folder = join(here, kind);
const names =
  job === 'screenshots'
    ? ['screenshots.ts']
    : readdirSync(folder).filter((name) => name.endsWith('.test.ts') && name.includes(wanted ?? ''));
if (names.length === 0) throw new Error(`there is no test ${wanted ?? ''} in ${folder}`);
const built = join(here, '../build', kind);
rmSync(built, { recursive: true, force: true });
await build({
  entryPoints: names.map((name) => join(folder, name)),
  outdir: built,
  outExtension: { '.js': '.mjs' },
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  packages: 'external',
  sourcemap: 'inline',
  logLevel: 'warning',
});
const files = names.map((name) => join(built, name.replace(/\.ts$/, '.mjs')));
const { status } = spawnSync(
  process.execPath,
  ['--enable-source-maps', '--test', '--test-concurrency=1', '--test-reporter=spec', ...files],
  { stdio: 'inherit', cwd: join(here, '..') },
);
process.exit(status ?? 1);
