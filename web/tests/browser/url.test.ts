// Stores on servers: what is read of them, and what servers may lack.

import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import type { Page } from 'playwright-core';

import { dropAndWait } from './browser.ts';
import { TestServer } from './server.ts';
import { expected, setting, store, STORES } from './setting.ts';

const shared = setting();
const stores = new TestServer(STORES);
let base: string;
before(async () => void (base = await stores.listen()));
after(() => stores.close());

async function openUrl(page: Page, name: string): Promise<void> {
  await page.getByLabel('Or its address').fill(`${base}/${name}`);
  await page.getByRole('button', { name: 'Open', exact: true }).click();
}

function sizeOf(name: string): number {
  return ['meta.zr', '0.zr', 'schema.msgpack'].reduce(
    (sum, file) => sum + statSync(join(store(name), file)).size,
    0,
  );
}

/** Until nothing is asked for any more. */
async function quiet(): Promise<void> {
  for (let before = -1; before !== stores.requests.length;) {
    before = stores.requests.length;
    await new Promise((resolve) => setTimeout(resolve, 700));
  }
}

for (const name of ['million', 'huge-extended']) {
  test(`${name}: opening reads less than a hundredth`, async () => {
    stores.behaviour = { tag: '"1"' };
    stores.forget();
    const { page, check } = await shared.open();
    await openUrl(page, name);
    await page.getByRole('heading', { level: 1, name }).waitFor();
    await page.locator('.preview .body > *').first().waitFor();
    await quiet();
    const share = stores.bytes / sizeOf(name);
    console.log(
      `  ${stores.requests.length} requests, ${stores.bytes} bytes of ${sizeOf(name)}: ${(100 * share).toFixed(3)} %`,
    );
    assert.ok(share < 0.01);
    assert.equal(new Set(stores.requests).size, stores.requests.length, 'nothing is asked for twice');
    assert.ok(
      stores.requests.every((request) => request.includes(' bytes=')),
      'every request is one for a range',
    );
    check();
  });
}

test('records of a server are those of the store, and all can be counted', async () => {
  stores.behaviour = { tag: '"1"' };
  const { page, check } = await shared.open();
  const { record, pixels } = expected<{ record: number; pixels: number[][] }>('digits');
  await page.goto(`${shared.url}/#url=${base}/digits-extended-zstd_dict&record=${record}`);
  await page.reload();
  await page.getByRole('heading', { name: `Record ${record}` }).waitFor();
  await page.locator('.preview canvas').waitFor();
  const middle = await page
    .locator('.preview canvas')
    .evaluate((canvas) => (canvas as HTMLCanvasElement).getContext('2d')?.getImageData(14, 14, 1, 1).data[0]);
  assert.equal(middle, pixels[14]?.[14]);
  await page.getByRole('tab', { name: 'Overview' }).click();
  await page.getByText(/^Estimated from 1,024 of 3,000\.$/).waitFor();
  await page.getByRole('button', { name: 'Count all' }).click();
  await page.getByText('All 3,000 counted.').waitFor();
  check();
});

const LACKING = [
  ['ignoresRanges', { ignoresRanges: true }, /meta\.zr: the server does not answer range requests/],
  ['hidesRange', { hidesRange: true }, /does not let this page read Content-Range/],
  ['isClosed', { isClosed: true }, /cannot be reached from this page/],
  ['compresses', { compresses: 'told' }, /seems to compress what it sends \(Content-Encoding: gzip\)/],
  [
    'compresses, and does not say so',
    { compresses: 'untold' },
    /seems to compress what it sends \(Content-Encoding: not told/,
  ],
] as const;

for (const [name, behaviour, text] of LACKING) {
  test(`a server that lacks something: ${name}`, async () => {
    stores.behaviour = behaviour;
    stores.forget();
    const { page, check } = await shared.open();
    await openUrl(page, 'million');
    await page.getByRole('alert').filter({ hasText: text }).waitFor();
    // It would have sent a quarter of a gigabyte.
    assert.ok(stores.bytes < 16 << 20, `${stores.bytes} bytes were sent`);
    check();
  });
}

test('no store at an address', async () => {
  stores.behaviour = {};
  const { page, check } = await shared.open();
  await openUrl(page, 'no-store');
  await page.getByRole('alert').filter({ hasText: 'There is no meta.zr at' }).waitFor();
  check();
});

test('a store that changes on the server is noticed', async () => {
  stores.behaviour = { tag: '"1"' };
  const { page, check } = await shared.open();
  await openUrl(page, 'million');
  await page.locator('.preview [role=tab]').first().waitFor();
  await quiet();
  stores.behaviour = { tag: '"2"' };
  await page.getByLabel('Go to record').fill('654321');
  await page.getByRole('button', { name: 'Go', exact: true }).click();
  await page.getByRole('alert').filter({ hasText: 'changed on the server' }).waitFor();
  check();
});

test('verifying reads all of a store on a server', async () => {
  stores.behaviour = { tag: '"1"' };
  const { page, check } = await shared.open();
  for (const [name, verdict] of [
    ['flipped', '3 faults found.'],
    ['digits-extended-zstd_dict', 'All 3,000 records are intact.'],
  ] as const) {
    await page.goto(`${shared.url}/#url=${base}/${name}`);
    await page.reload();
    await page.getByRole('heading', { level: 1, name }).waitFor();
    await page.getByRole('tab', { name: 'Verify' }).click();
    await page.getByRole('button', { name: 'Verify', exact: true }).click();
    await page.getByText(verdict).waitFor();
  }
  check();
});

test('chunks further on are found when they are needed', async () => {
  stores.behaviour = {};
  stores.forget();
  const { page, check } = await shared.open();
  await openUrl(page, 'large-classic');
  await page.getByLabel('Go to record').fill(String(2 ** 24 - 1));
  await page.getByRole('button', { name: 'Go', exact: true }).click();
  await page.getByRole('heading', { name: 'Record 16,777,215' }).waitFor();
  await page.locator('.preview [role=tab]').first().waitFor();
  assert.ok(stores.requests.some((request) => request.startsWith('/large-classic/63.zr bytes=')));
  assert.ok(!stores.requests.some((request) => request.startsWith('/large-classic/62.zr')));
  check();
});

test('another store that is opened afterwards begins at its own record', async () => {
  stores.behaviour = {};
  const { page, check } = await shared.open();
  await page.goto(`${shared.url}/#url=${base}/tensor&record=9`);
  await page.reload();
  await page.getByRole('heading', { name: 'Record 9', exact: true }).waitFor();
  await dropAndWait(page, store('texts'));
  await page.getByRole('heading', { name: 'Record 0', exact: true }).waitFor();
  assert.equal(new URL(page.url()).hash, '#record=0');
  check();
});

test('opening can be cancelled while a server does not answer', async () => {
  stores.behaviour = { stalls: true };
  const { page, check } = await shared.open();
  await openUrl(page, 'tensor');
  await page.getByText('Opening tensor…').waitFor();
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('heading', { name: 'Look into a Zrecord store' }).waitFor();
  await dropAndWait(page, store('tensor'));
  await page.locator('.preview [role=tab]').first().waitFor();
  check();
});
