// The numbers on the page beside those of the native command.

import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { test } from 'node:test';

import { size } from '../../src/data/format.ts';
import { dropAndWait, showTab } from './browser.ts';
import { compare, fact, number, shown } from './facts.ts';
import { goldens, setting, store } from './setting.ts';

const shared = setting();
const DEMOS = [
  'digits-extended-raw',
  'digits-extended-zstd',
  'digits-extended-zstd_dict',
  'digits-classic-raw',
  'digits-classic-zstd',
  'digits-classic-zstd_dict',
  'chw-float',
  'texts',
  'tokens',
  'fields',
  'untyped',
  'empty',
  'deleted',
];

test('dropped stores of both formats and every codec', async () => {
  const { page, check } = await shared.open();
  for (const folder of [...goldens(), ...DEMOS.map(store)]) {
    await dropAndWait(page, folder);
    try {
      compare(await shown(page), folder);
    } catch (error) {
      throw new Error(`${basename(folder)}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  check();
});

test('a picked folder', async () => {
  const { page, check } = await shared.open();
  await page.locator('input[type=file]').setInputFiles(store('digits-extended-zstd_dict'));
  await page.getByRole('heading', { name: 'digits-extended-zstd_dict' }).waitFor();
  compare(await shown(page), store('digits-extended-zstd_dict'));
  check();
});

test('dictionaries and their sizes', async () => {
  const { page, check } = await shared.open();
  const folder = store('digits-extended-zstd_dict');
  await dropAndWait(page, folder);
  await showTab(page, 'Overview');
  const bytes = statSync(join(folder, 'dict.zr')).size;
  await page.locator('[data-detail="Dictionaries"]', { hasText: `1, ${size(bytes)}` }).waitFor();
  check();
});

test('of a folder of stores one is chosen', async () => {
  const { page, check } = await shared.open();
  await page.locator('input[type=file]').setInputFiles(
    goldens()
      .slice(0, 1)
      .map((folder) => folder.slice(0, folder.lastIndexOf('/'))),
  );
  await page.getByRole('heading', { name: `${goldens().length} stores are in it` }).waitFor();
  await page.getByRole('button', { name: 'dense_zstd_dict' }).click();
  await page.getByRole('heading', { level: 1, name: 'dense_zstd_dict' }).waitFor();
  check();
});

test('a large store is estimated first, and counted when asked', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('large-classic'));
  const note = page.locator('[data-fact="plain"] dd.note');
  await note.filter({ hasText: /^estimated from [\d,]+$/ }).waitFor();
  // The records are 1 to 61 bytes long, in turn: 31 bytes on the average.
  await note.filter({ hasText: /bytes$/ }).waitFor({ timeout: 120_000 });
  const plain = number((await fact(page, 'plain')).note);
  let sum = 0;
  for (let index = 0; index < 2 ** 24; index += 1) sum += 1 + (index % 61);
  assert.equal(plain, sum);
  check();
});
