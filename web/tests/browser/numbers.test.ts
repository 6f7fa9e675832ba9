// The numbers on the page beside those of the native command.

import assert from 'node:assert/strict';
import { basename } from 'node:path';
import { test } from 'node:test';

import type { Page } from 'playwright-core';

import { dropAndWait, showTab } from './browser.ts';
import { goldens, native, setting, store } from './setting.ts';

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

const number = (text: string) => Number(text.replace(/[^\d.]/g, ''));

async function fact(page: Page, name: string): Promise<{ value: string; note: string }> {
  const [value = '', note = ''] = await page.locator(`[data-fact="${name}"] dd`).allTextContents();
  return { value, note };
}

/** What the page says, as `zrecord inspect --json` does. */
async function shown(page: Page): Promise<Record<string, unknown>> {
  await page.locator('[data-fact="chunks"] dd', { hasText: /^\d/ }).first().waitFor();
  await showTab(page, 'Overview');
  await page.getByText(/^All [\d,]+ counted\.$/).waitFor();
  const texts = await page.locator('.details dt').allTextContents();
  const values = await page.locator('.details dd').allTextContents();
  const details = new Map(texts.map((text, at) => [text, values[at] ?? '']));
  const codecs = await page
    .locator('.codecs li')
    .evaluateAll((items) =>
      items.map(
        (item) => [item.getAttribute('data-codec'), item.querySelector('.number')?.textContent] as const,
      ),
    );
  const [format, version] = (details.get('Format') ?? '').split(', version ');
  const facts = {
    plain: await fact(page, 'plain'),
    stored: await fact(page, 'stored'),
    ratio: await fact(page, 'ratio'),
    chunks: await fact(page, 'chunks'),
    reclaimable: await fact(page, 'reclaimable'),
  };
  return {
    format,
    version: Number(version),
    id: details.get('Id') ?? null,
    kind: details.get('Kind') ?? null,
    dtype: details.get('Dtype') ?? null,
    shape: details.get('Item shape') ?? null,
    codec: details.get('Codec') ?? null,
    records: number((await fact(page, 'records')).value),
    plain_bytes: number(facts.plain.note),
    stored_bytes: number(facts.stored.note),
    ratio: facts.ratio.value,
    chunks: number(facts.chunks.value),
    chunk_bytes: number(facts.chunks.note),
    reclaimable_bytes: number(facts.reclaimable.note),
    dictionaries: number(details.get('Dictionaries') ?? ''),
    generation: number(details.get('Generation') ?? '0'),
    clean: details.get('Closed cleanly') !== 'no',
    codecs: Object.fromEntries(
      codecs.map(([codec, count]) => [codec?.replace('-', '_'), number(count ?? '')]),
    ),
  };
}

function compare(found: Record<string, unknown>, folder: string): void {
  const said = native('inspect', folder);
  const schema = said['schema'] as {
    kind: string;
    dtype: string;
    item_shape: number[];
    codec: string;
  } | null;
  const ratio = said['ratio'] as number | null;
  assert.ok(!schema || String(found['dtype']).includes(schema.dtype), `dtype ${found['dtype']}`);
  const { dtype: _, ...rest } = found;
  const same = [
    'format',
    'version',
    'id',
    'records',
    'plain_bytes',
    'stored_bytes',
    'chunks',
    'chunk_bytes',
    'reclaimable_bytes',
    'dictionaries',
    'generation',
    'clean',
    'codecs',
  ];
  assert.deepEqual(rest, {
    ...Object.fromEntries(same.map((key) => [key, said[key]])),
    kind: schema?.kind ?? null,
    shape: schema ? schema.item_shape.join(' × ') || 'scalar' : null,
    codec: schema?.codec.replace('_', '-') ?? null,
    ratio: ratio === null ? '–' : `${ratio.toFixed(2)}×`,
  });
}

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
