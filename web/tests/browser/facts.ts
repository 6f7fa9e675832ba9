// What the page says of a store, beside what the native command says.

import assert from 'node:assert/strict';

import type { Page } from 'playwright-core';

import { showTab } from './browser.ts';
import { native } from './setting.ts';

export const number = (text: string) => Number(text.replace(/[^\d.]/g, ''));

export async function fact(page: Page, name: string): Promise<{ value: string; note: string }> {
  const [value = '', note = ''] = await page.locator(`[data-fact="${name}"] dd`).allTextContents();
  return { value, note };
}

/** What the page says, as `zrecord inspect --json` does. */
export async function shown(page: Page): Promise<Record<string, unknown>> {
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
    dictionaries: number((details.get('Dictionaries') ?? '').split(',')[0] ?? ''),
    generation: number(details.get('Generation') ?? '0'),
    clean: details.get('Closed cleanly') !== 'no',
    codecs: Object.fromEntries(
      codecs.map(([codec, count]) => [codec?.replace('-', '_'), number(count ?? '')]),
    ),
  };
}

export function compare(found: Record<string, unknown>, folder: string): void {
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
