// Who uses a keyboard, a screen reader, a narrow window, or no network.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';

import type { Page } from 'playwright-core';

import { dropAndWait, showTab } from './browser.ts';
import { setting, store } from './setting.ts';

const shared = setting();
const AXE = createRequire(`${process.cwd()}/`).resolve('axe-core/axe.min.js');
const TABS = ['Records', 'Overview', 'Contact sheet', 'Sampler', 'Verify'];

interface Violation {
  id: string;
  help: string;
  nodes: { html: string; failureSummary: string }[];
}

async function violations(page: Page): Promise<string[]> {
  const found = await page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run(): Promise<{ violations: Violation[] }> } };
    return (await axe.run()).violations;
  });
  return found.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`);
}

for (const scheme of ['light', 'dark'] as const) {
  for (const [kind, width] of [
    ['wide', 1280],
    ['narrow', 400],
  ] as const) {
    test(`no violations, ${scheme} and ${kind}`, async () => {
      // The checker is put in from outside, past the page's own rules.
      const { page } = await shared.open({
        colorScheme: scheme,
        viewport: { width, height: 800 },
        bypassCSP: true,
      });
      await page.addScriptTag({ path: AXE });
      assert.deepEqual(await violations(page), [], 'start');
      for (const name of ['flipped', 'hwc-rgb', 'texts', 'tensor']) {
        await dropAndWait(page, store(name));
        await page.locator('.preview [role=tab]').first().waitFor();
        assert.deepEqual(await violations(page), [], name);
      }
      await dropAndWait(page, store('flipped'));
      for (const tab of TABS) {
        await showTab(page, tab);
        if (tab === 'Verify') {
          await page.getByRole('button', { name: 'Verify', exact: true }).click();
          await page.locator('.verdict').waitFor();
        }
        await page.waitForTimeout(300);
        assert.deepEqual(await violations(page), [], tab);
      }
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `the page is ${overflow} pixels too wide`);
    });
  }
}

/** Goes on with the tabulator until something of that name has the focus. */
async function tabTo(page: Page, role: string, name: RegExp): Promise<void> {
  for (let step = 0; step < 60; step += 1) {
    await page.keyboard.press('Tab');
    const focused = await page.evaluate(() => {
      const element = document.activeElement;
      const label = element?.getAttribute('aria-label') ?? element?.textContent ?? '';
      const input = element instanceof HTMLInputElement ? (element.labels?.[0]?.textContent ?? '') : '';
      const role = element?.getAttribute('role') ?? element?.tagName.toLowerCase() ?? '';
      return { role, name: input || label };
    });
    if (focused.role === role && name.test(focused.name)) return;
  }
  throw new Error(`no ${role} ${name} is reached`);
}

test('everything is reached by the keyboard alone', async () => {
  const { page, check } = await shared.open();
  await tabTo(page, 'button', /^Choose folder/);
  await page.keyboard.press('Tab');
  await dropAndWait(page, store('flipped'));
  await page.locator('.preview [role=tab]').first().waitFor();

  await tabTo(page, 'tab', /^Records$/);
  await tabTo(page, 'input', /^Go to record$/);
  await page.keyboard.type('76');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Record 76' }).waitFor();
  await tabTo(page, 'grid', /^Records$/);
  await page.keyboard.press('ArrowDown');
  await page.getByText(/^This record is damaged/).waitFor();
  const active = await page.getByRole('grid').getAttribute('aria-activedescendant');
  assert.equal(await page.locator(`[id="${active}"]`).getAttribute('aria-rowindex'), '79');
  await page.keyboard.press('ArrowDown');
  await page.getByRole('heading', { name: 'Record 78' }).waitFor();
  await page.locator('.preview [role=tab]').first().waitFor();
  await tabTo(page, 'tab', /^(Waveform|Picture|Text)$/);
  await page.keyboard.press('End');
  await page.locator('pre.hex').waitFor();

  await page.keyboard.press('Shift+Tab');
  for (let step = 0; step < 30; step += 1) {
    await page.keyboard.press('Shift+Tab');
    if (await page.evaluate(() => document.activeElement?.textContent === 'Records')) break;
  }
  await page.keyboard.press('End');
  await page.getByRole('button', { name: 'Verify', exact: true }).waitFor();
  await tabTo(page, 'button', /^Verify$/);
  await page.keyboard.press('Enter');
  await page.getByText('3 faults found.').waitFor();
  await tabTo(page, 'button', /^77$/);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Record 77' }).waitFor();
  check();
});

test('nothing moves while it is read', async () => {
  const { page, check } = await shared.open();
  await page.evaluate(() => {
    const shifts: number[] = [];
    (window as unknown as { shifts: number[] }).shifts = shifts;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) shifts.push((entry as unknown as { value: number }).value);
    }).observe({ type: 'layout-shift', buffered: true });
  });
  await dropAndWait(page, store('digits-extended-zstd'));
  await page.locator('[data-fact="chunks"] dd', { hasText: /^\d/ }).first().waitFor();
  await page.waitForTimeout(500);
  const sum = await page.evaluate(() =>
    (window as unknown as { shifts: number[] }).shifts.reduce((total, one) => total + one, 0),
  );
  assert.ok(sum < 0.02, `shifts come to ${sum}`);
  check();
});

test('without a network all works, and nothing is ever asked for elsewhere', async () => {
  const { page, context, check } = await shared.open();
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  context.on('request', (request) => asked.push(request.url()));
  // The worker is the last file that is needed.
  await dropAndWait(page, store('tensor'));
  await page.locator('.preview [role=tab]').first().waitFor();
  assert.ok(
    asked.every((url) => url.startsWith(shared.url) || url.startsWith('blob:') || url.startsWith('data:')),
    asked.join(' '),
  );
  assert.ok(shared.server.requests.every((request) => !request.startsWith('POST')));
  await context.setOffline(true);
  for (const tab of TABS) await showTab(page, tab);
  await page.getByRole('button', { name: 'Verify', exact: true }).click();
  await page.getByText('All 50 records are intact.').waitFor();
  check();
});

test('the policy is there and strict', async () => {
  const { page } = await shared.open();
  const policy = await page.locator('meta[http-equiv]').getAttribute('content');
  assert.match(policy ?? '', /^default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self';/);
  assert.match(policy ?? '', /require-trusted-types-for 'script'/);
  assert.doesNotMatch(policy ?? '', /unsafe-inline|'unsafe-eval'|\*/);
});
