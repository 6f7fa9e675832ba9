// Verifying from the page, beside the native command.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Page } from 'playwright-core';

import { dropAndWait, showTab } from './browser.ts';
import { expected, goldens, native, setting, store } from './setting.ts';

const shared = setting();

interface Fault {
  file: string;
  offset: number | null;
  index: number | null;
  reason: string;
}

async function verify(page: Page): Promise<void> {
  await showTab(page, 'Verify');
  await page.getByRole('button', { name: 'Verify', exact: true }).click();
  await page.locator('.verdict').waitFor({ timeout: 120_000 });
}

async function faults(page: Page): Promise<Fault[]> {
  const rows = await page
    .locator('.faults tbody tr')
    .evaluateAll((all) => all.map((row) => [...row.children].map((cell) => cell.textContent ?? '')));
  const number = (text = '') => (text === '' ? null : Number(text.replaceAll(',', '')));
  return rows.map(([file = '', offset, index, reason = '']) => ({
    file,
    offset: number(offset),
    index: number(index),
    reason,
  }));
}

test('exactly the damaged records are listed', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('flipped'));
  await verify(page);
  const found = await faults(page);
  assert.deepEqual(
    found.map(({ index }) => index),
    expected<number[]>('flipped'),
  );
  assert.deepEqual(found, native('verify', store('flipped'))['faults']);
  await page.getByText('3 faults found.').waitFor();
  await page.locator('.faults').getByRole('button', { name: '77' }).click();
  await page.getByText(/^This record is damaged\. record 77: 0\.zr at byte 23,?100/).waitFor();
  await page.locator('.row[data-index="77"] .check.damaged').waitFor();
  await page.locator('.row[data-index="78"] .check.intact').waitFor();
  check();
});

for (const name of ['missing-chunk', 'cut-chunk', 'bad-entry', 'bad-schema', 'cut-table']) {
  test(`${name}: the same faults as the command's`, async () => {
    const { page, check } = await shared.open();
    await dropAndWait(page, store(name));
    await verify(page);
    const found = await faults(page);
    const said = native('verify', store(name))['faults'] as Fault[];
    assert.ok(said.length > 0);
    const text = ({ file, offset, index, reason }: Fault) =>
      `${index} ${file} ${offset} ${reason.slice(0, 24)}`;
    assert.deepEqual(found.map(text).sort(), said.map(text).sort());
    check();
  });
}

test('intact stores of both formats are found intact', async () => {
  const { page, check } = await shared.open();
  for (const folder of [store('digits-extended-zstd_dict'), store('deleted'), ...goldens().slice(0, 4)]) {
    await dropAndWait(page, folder);
    await verify(page);
    await page.getByText(/^All [\d,]+ records? are intact\.$/).waitFor();
    assert.deepEqual(await faults(page), []);
  }
  check();
});

test('verifying stops when it is told to, and the page goes on', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('million'));
  await showTab(page, 'Verify');
  await page.getByRole('button', { name: 'Verify', exact: true }).click();
  await page.getByText(/of 1,000,000 records/).waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('Stopped before the end; nothing wrong was found until then.').waitFor();
  await showTab(page, 'Records');
  await page.getByLabel('Go to record').fill('999999');
  await page.getByRole('button', { name: 'Go', exact: true }).click();
  await page.getByRole('heading', { name: 'Record 999,999' }).waitFor();
  await page.locator('.preview [role=tab]').first().waitFor();
  check();
});

test('a call that does not end is ended, and the page goes on', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('huge-extended'));
  await showTab(page, 'Verify');
  // The structure of 10^8 records is checked in one call.
  await page.getByRole('button', { name: 'Verify', exact: true }).click();
  await page.getByText('Header and table…').waitFor();
  await page.waitForTimeout(300);
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('Stopped before the end').waitFor();
  await showTab(page, 'Records');
  await page.getByLabel('Go to record').fill('31415926');
  await page.getByRole('button', { name: 'Go', exact: true }).click();
  await page.locator('.row[data-index="31415926"]').getByText('1000 bytes').first().waitFor();
  check();
});
