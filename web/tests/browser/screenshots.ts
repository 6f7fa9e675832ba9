// Pictures of the main views for the documentation. To be run like a test:
//
//     node tests/run.mjs screenshots

import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { test } from 'node:test';

import type { Page } from 'playwright-core';

import { dropAndWait, showTab } from './browser.ts';
import { setting, store } from './setting.ts';

const shared = setting();
const FOLDER = resolve(process.env['ZRECORD_SCREENSHOTS'] ?? '../docs/inspector');

async function goTo(page: Page, index: number): Promise<void> {
  await page.getByLabel('Go to record').fill(String(index));
  await page.getByRole('button', { name: 'Go', exact: true }).click();
  await page.locator('.preview [role=tab]').first().waitFor();
}

for (const scheme of ['light', 'dark'] as const) {
  test(`${scheme} views`, async () => {
    mkdirSync(FOLDER, { recursive: true });
    const { page } = await shared.open({ colorScheme: scheme, viewport: { width: 1280, height: 800 } });
    const take = async (name: string) => {
      await page.mouse.move(0, 0);
      await page.waitForTimeout(400);
      await page.screenshot({ path: join(FOLDER, `${name}-${scheme}.png`) });
    };
    if (scheme === 'light') await take('start');
    await dropAndWait(page, store('photos'));
    await goTo(page, 1234);
    await take('records');
    await showTab(page, 'Contact sheet');
    await page.locator('.sheet canvas').nth(59).waitFor();
    await take('contact-sheet');
    await dropAndWait(page, store('digits-extended-zstd_dict'));
    await showTab(page, 'Overview');
    await page.getByText(/^All [\d,]+ counted\.$/).waitFor();
    await take('overview');
    await dropAndWait(page, store('flipped'));
    await showTab(page, 'Verify');
    await page.getByRole('button', { name: 'Verify', exact: true }).click();
    await page.locator('.verdict').waitFor();
    await take('verify');
  });
}

test('a narrow window', async () => {
  const { page } = await shared.open({ viewport: { width: 400, height: 860 } });
  await dropAndWait(page, store('photos'));
  await goTo(page, 3);
  await page.waitForTimeout(400);
  await page.screenshot({ path: join(FOLDER, 'narrow-light.png'), fullPage: true });
});
