// The single file, opened as by a double click.

import assert from 'node:assert/strict';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { test } from 'node:test';

import { dropAndWait, showTab } from './browser.ts';
import { expected, setting, store } from './setting.ts';

const shared = setting();
const FILE = pathToFileURL(resolve('dist/zrecord-view.html')).href;

test('it shows, verifies and draws, without any other file', async () => {
  const { page, context, check } = await shared.open({ offline: true }, FILE);
  const asked: string[] = [];
  context.on('request', (request) => asked.push(request.url()));
  await dropAndWait(page, store('digits-extended-zstd_dict'));
  const { record, pixels } = expected<{ record: number; pixels: number[][] }>('digits');
  await page.getByLabel('Go to record').fill(String(record));
  await page.getByRole('button', { name: 'Go', exact: true }).click();
  await page.getByRole('heading', { name: `Record ${record}` }).waitFor();
  const found = await page
    .locator('.preview canvas')
    .evaluate((canvas) =>
      Array.from(
        (canvas as HTMLCanvasElement).getContext('2d')?.getImageData(0, 0, 28, 28).data ?? [],
      ).filter((_, at) => at % 4 === 0),
    );
  assert.deepEqual(found, pixels.flat());
  await showTab(page, 'Verify');
  await page.getByRole('button', { name: 'Verify', exact: true }).click();
  await page.getByText('All 3,000 records are intact.').waitFor();
  assert.ok(
    asked.every((url) => url.startsWith('blob:') || url.startsWith('data:')),
    asked.join(' '),
  );
  check();
});

test('a picked folder, and one that is no store', async () => {
  const { page, check } = await shared.open({}, FILE);
  await page.locator('input[type=file]').setInputFiles(store('no-store'));
  await page.getByRole('alert').filter({ hasText: 'There is no Zrecord store in it' }).waitFor();
  await page.locator('input[type=file]').setInputFiles(store('hwc-rgb'));
  await page.getByRole('heading', { level: 1, name: 'hwc-rgb' }).waitFor();
  await page.locator('.preview canvas').waitFor();
  check();
});
