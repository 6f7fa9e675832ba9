// What is no store, and what was made to do harm.

import assert from 'node:assert/strict';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { drop, dropAndWait, showTab } from './browser.ts';
import { count } from '../../src/data/format.ts';
import { expected, setting, store } from './setting.ts';

const shared = setting();

const REFUSED = [
  ['no-store', 'There is no Zrecord store in it'],
  ['no-header', 'no-header cannot be opened'],
  ['empty-header', 'empty-header cannot be opened'],
] as const;

for (const [name, text] of REFUSED) {
  test(`${name}: a calm message`, async () => {
    const { page, check } = await shared.open();
    await drop(page, [store(name)]);
    await page.getByRole('alert').filter({ hasText: text }).waitFor();
    // The page goes on.
    await dropAndWait(page, store('tensor'));
    check();
  });
}

const SHOWN_IN_PART = [
  ['cut-table', /the table was cut after 31|cut short/],
  ['bad-schema', /schema cannot be read, so records are shown as bytes/],
] as const;

for (const [name, text] of SHOWN_IN_PART) {
  test(`${name}: what can be read is shown`, async () => {
    const { page, check } = await shared.open();
    await dropAndWait(page, store(name));
    await page.getByRole('alert').filter({ hasText: text }).first().waitFor();
    await page.getByRole('heading', { name: 'Record 0' }).waitFor();
    await page.locator('.preview pre, .preview canvas').first().waitFor();
    check();
  });
}

test('one bad entry hides no other', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('bad-entry'));
  await page.locator('.row[data-index="7"].broken').waitFor();
  assert.equal(await page.locator('.layer .row.broken').count(), 1);
  await page.locator('.row[data-index="7"]').click();
  await page.getByRole('alert').filter({ hasText: 'This record is damaged' }).waitFor();
  await page.locator('.row[data-index="8"]').click();
  await page.locator('.preview [role=tab]').first().waitFor();
  await showTab(page, 'Overview');
  await page.getByText('All 50 counted, of which 1 entry is damaged.').waitFor();
  assert.equal(await page.locator('.codecs [data-codec="raw"] .number').first().textContent(), '49');
  check();
});

test('many bad entries are counted, and all others too', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('bad-entries'));
  await showTab(page, 'Overview');
  const bad = expected<number>('bad-entries');
  await page.getByText(`All 5,000 counted, of which ${bad} entries are damaged.`).waitFor();
  const plain = page.locator('[data-fact="plain"] dd.note');
  assert.equal(await plain.textContent(), `${count(10 * (5000 - bad))} bytes`);
  check();
});

test('a missing chunk is said where it is needed', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('missing-chunk'));
  await page.getByRole('alert').filter({ hasText: 'the chunk file is missing' }).waitFor();
  check();
});

test('metadata, names and texts are never read as HTML', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('html-metadata'));
  await showTab(page, 'Overview');
  await page.getByLabel('Metadata').getByText('onerror').waitFor();
  assert.match(await page.title(), /^html-metadata –/);
  assert.equal(await page.locator('main img, main script').count(), 0);
  check();
});

test('scripts that get in nevertheless do not run', async () => {
  const { page } = await shared.open();
  const outcome = await page.evaluate(async () => {
    const violations: string[] = [];
    document.addEventListener('securitypolicyviolation', (event) =>
      violations.push(event.effectiveDirective),
    );
    const script = document.createElement('script');
    try {
      script.textContent = 'window.harmed = true';
    } catch {
      violations.push('trusted-types');
    }
    document.body.append(script);
    try {
      document.body.setAttribute('onclick', 'window.harmed = true');
    } catch {
      violations.push('trusted-types');
    }
    document.body.click();
    try {
      document.body.innerHTML = '<b>x</b>';
    } catch {
      violations.push('trusted-types');
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
    return { harmed: 'harmed' in window, violations };
  });
  assert.equal(outcome.harmed, false);
  assert.ok(outcome.violations.length > 0);
});

test('damaged headers of many kinds end no page', async () => {
  const { page, check } = await shared.open();
  const folder = mkdtempSync(join(tmpdir(), 'zrecord-inspector-'));
  const whole = readFileSync(join(store('tensor'), 'meta.zr'));
  let state = 12_345;
  const random = (below: number) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
  try {
    for (let round = 0; round < 40; round += 1) {
      const name = join(folder, `store-${round}`);
      mkdirSync(name);
      for (const file of ['0.zr', 'schema.msgpack'])
        copyFileSync(join(store('tensor'), file), join(name, file));
      const meta = Buffer.from(whole);
      const places = [random(48), 4096 + random(96), 8192 + random(96), 12_288 + random(24 * 50)];
      for (const place of places.slice(0, 1 + random(4))) meta[place] = random(256);
      writeFileSync(
        join(name, 'meta.zr'),
        meta.subarray(0, random(3) === 0 ? random(meta.length) : meta.length),
      );
      await drop(page, [name]);
      await page.locator(`[role=alert]:visible, h1:has-text("store-${round}")`).first().waitFor();
      assert.equal(await page.locator('main').count(), 1);
    }
    await dropAndWait(page, store('tensor'));
    await page.locator('.preview [role=tab]').first().waitFor();
  } finally {
    rmSync(folder, { recursive: true });
  }
  check();
});

test('files that change while they are looked at', async () => {
  const { page, check } = await shared.open();
  const folder = join(mkdtempSync(join(tmpdir(), 'zrecord-inspector-')), 'changing');
  mkdirSync(folder);
  for (const file of ['meta.zr', '0.zr', 'schema.msgpack'])
    copyFileSync(join(store('digits-extended-raw'), file), join(folder, file));
  await dropAndWait(page, folder);
  await page.locator('.preview [role=tab]').first().waitFor();
  writeFileSync(join(folder, '0.zr'), 'another');
  writeFileSync(join(folder, 'meta.zr'), 'another');
  await showTab(page, 'Verify');
  await page.getByRole('button', { name: 'Verify', exact: true }).click();
  await page.locator('.verify .notice, .verdict.bad').first().waitFor();
  rmSync(folder, { recursive: true });
  await drop(page, [store('tensor')]);
  await page.getByRole('heading', { level: 1, name: 'tensor' }).waitFor();
  check();
});

test('a worker that dies takes nothing with it', async () => {
  const { page } = await shared.open();
  await dropAndWait(page, store('tensor'));
  await page.locator('.preview [role=tab]').first().waitFor();
  // The next request finds a component that has run out of its stack.
  const [worker] = page.workers();
  assert.ok(worker);
  await worker.evaluate(() => {
    const memory = WebAssembly.Memory.prototype;
    Object.defineProperty(memory, 'buffer', {
      get: () => {
        throw new WebAssembly.RuntimeError('unreachable');
      },
    });
  });
  await page.getByLabel('Go to record').fill('31');
  await page.getByRole('button', { name: 'Go', exact: true }).click();
  await page.getByRole('alert').filter({ hasText: 'The component failed' }).waitFor();
  // Another one takes its place.
  await page.getByLabel('Go to record').fill('32');
  await page.getByRole('button', { name: 'Go', exact: true }).click();
  await page.getByText('float64, 2 × 3 × 5').first().waitFor();
  await page.getByRole('heading', { name: 'Record 32' }).waitFor();
});

test('a file that is gone, and a folder in its place, are said', async () => {
  const { page, check } = await shared.open();
  const folder = join(mkdtempSync(join(tmpdir(), 'zrecord-inspector-')), 'leaving');
  mkdirSync(folder);
  for (const file of ['meta.zr', '0.zr', 'schema.msgpack']) {
    copyFileSync(join(store('million'), file), join(folder, file));
  }
  await dropAndWait(page, folder);
  await page.locator('.preview [role=tab]').first().waitFor();
  rmSync(join(folder, '0.zr'));
  await page.getByLabel('Go to record').fill('900000');
  await page.getByRole('button', { name: 'Go', exact: true }).click();
  await page.locator('.preview').getByRole('alert').filter({ hasText: /0\.zr/ }).waitFor();
  mkdirSync(join(folder, '0.zr'));
  await dropAndWait(page, store('tensor'));
  await drop(page, [folder]);
  await page.getByRole('alert').filter({ hasText: 'the chunk file is missing' }).waitFor();
  rmSync(folder, { recursive: true });
  check();
});
