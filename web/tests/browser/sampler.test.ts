// Batches on the page beside those of the Python package.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { dropAndWait, showTab } from './browser.ts';
import { expected, setting, store } from './setting.ts';

const shared = setting();

test('every mode draws what the native sampler draws', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('digits-extended-zstd'));
  await showTab(page, 'Sampler');
  await page.getByLabel('Seed').fill('7');
  await page.getByLabel('Batch size').fill('64');
  await page.getByLabel('Batches', { exact: true }).fill('46');
  for (const mode of ['sequential', 'iid', 'cyclic']) {
    await page.getByLabel('Mode').selectOption(mode);
    await page.getByRole('button', { name: 'Draw' }).click();
    const batches = expected<number[][]>(`sampler-${mode}`);
    for (const [step, batch] of batches.entries()) {
      const chips = page.locator(`[data-step="${step}"] button`);
      await chips
        .filter({ hasText: batch[0]?.toLocaleString('en') ?? '' })
        .first()
        .waitFor();
      const found = (await chips.allTextContents()).map((text) => Number(text.replaceAll(',', '')));
      assert.deepEqual(found, batch, `${mode}, step ${step}`);
    }
    const text = (await page.locator('.sampler figcaption').textContent()) ?? '';
    assert.match(text, /^2,944 drawn, /);
    // A cycle repeats nothing, and 46 batches are one.
    const distinct = Number(/([\d,]+) different/.exec(text)?.[1]?.replaceAll(',', ''));
    if (mode === 'iid') assert.ok(distinct > 1750 && distinct < 2000, text);
    else assert.equal(distinct, 2944);
  }
  await page.getByText('A cycle has 46 batches.').waitFor();
  check();
});

test('what cannot be drawn is said, and a surprise is a record', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('digits-extended-zstd'));
  await showTab(page, 'Sampler');
  await page.getByLabel('Batch size').fill('3001');
  await page.getByRole('button', { name: 'Draw' }).click();
  await page.getByRole('alert').filter({ hasText: /batch/ }).waitFor();
  await showTab(page, 'Records');
  const seen = new Set<string>();
  for (let round = 0; round < 5; round += 1) {
    const before = await page.locator('.preview h2').textContent();
    await page.getByRole('button', { name: 'Surprise me' }).click();
    await page.waitForFunction((text) => document.querySelector('.preview h2')?.textContent !== text, before);
    seen.add((await page.locator('.preview h2').textContent()) ?? '');
  }
  assert.ok(seen.size >= 4);
  check();
});

test('ranks share the global batch', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('digits-extended-zstd'));
  await showTab(page, 'Sampler');
  await page.getByLabel('Seed').fill('7');
  await page.getByLabel('Batch size').fill('16');
  await page.getByLabel('Ranks').fill('4');
  await page.getByRole('button', { name: 'Draw' }).click();
  const [first = []] = expected<number[][]>('sampler-cyclic');
  const label = `Record ${first[17]?.toLocaleString('en')}, rank 1`;
  await page.locator('[data-step="0"] button').nth(17).and(page.getByLabel(label)).waitFor();
  check();
});
