// Records as they are shown, beside what they were made from.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import type { Page } from 'playwright-core';

import { dropAndWait, showTab } from './browser.ts';
import { expected, setting, store } from './setting.ts';

const shared = setting();

async function goTo(page: Page, index: number): Promise<void> {
  await page.getByLabel('Go to record').fill(String(index));
  await page.getByRole('button', { name: 'Go', exact: true }).click();
  await page.getByRole('heading', { name: `Record ${index.toLocaleString('en')}`, exact: true }).waitFor();
}

/** The colours of the canvas in the preview. */
async function pixels(page: Page): Promise<number[][][]> {
  const canvas = page.locator('.preview canvas');
  await canvas.waitFor();
  return canvas.evaluate((element) => {
    const { width, height } = element as HTMLCanvasElement;
    const data =
      (element as HTMLCanvasElement).getContext('2d')?.getImageData(0, 0, width, height).data ?? [];
    return Array.from({ length: height }, (_, row) =>
      Array.from({ length: width }, (_, column) =>
        Array.from(data.slice(4 * (row * width + column), 4 * (row * width + column) + 3)),
      ),
    );
  });
}

type Grey = number[][];
type Colour = number[][][];

function same(found: Colour, wanted: Grey | Colour): void {
  assert.equal(found.length, wanted.length);
  found.forEach((row, y) =>
    row.forEach((pixel, x) => {
      const value = wanted[y]?.[x];
      assert.deepEqual(pixel, typeof value === 'number' ? [value, value, value] : value, `pixel ${x}, ${y}`);
    }),
  );
}

test('pictures have the pixels of their tensors', async () => {
  const { page, check } = await shared.open();
  const digits = expected<{ record: number; pixels: Grey }>('digits');
  for (const name of [
    'digits-extended-raw',
    'digits-extended-zstd_dict',
    'digits-classic-zstd',
    'digits-classic-zstd_dict',
  ]) {
    await dropAndWait(page, store(name));
    await goTo(page, digits.record);
    same(await pixels(page), digits.pixels);
  }
  await page.getByText('28 × 28, grey; values as they are, 0 to 255.').waitFor();
  for (const name of ['hwc-rgb', 'chw-float']) {
    const { record, pixels: wanted } = expected<{ record: number; pixels: Colour }>(name);
    await dropAndWait(page, store(name));
    await goTo(page, record);
    same(await pixels(page), wanted);
  }
  await page
    .getByText(/32 × 32, RGB, CHW; -[\d.]+ \(lowest\) is black, [\d.]+ \(highest\) is white\./)
    .waitFor();
  check();
});

test('encoded images are decoded, too large ones and SVG are not', async () => {
  const { page, check } = await shared.open();
  const { png_pixels, bomb, svg } = expected<{ png_pixels: Colour; bomb: number; svg: number }>('images');
  await dropAndWait(page, store('images'));
  same(await pixels(page), png_pixels);
  for (const [index, type] of ['PNG', 'JPEG', 'WEBP', 'GIF'].entries()) {
    await goTo(page, index);
    await page.getByText(`${type}, 160 × 120`).waitFor();
    await page.locator('.preview canvas[width="160"]').waitFor();
  }
  await goTo(page, bomb);
  await page.getByText('PNG, 60,000 × 60,000: more than 64 megapixels are not decoded.').waitFor();
  assert.equal(await page.locator('.preview canvas').count(), 0);
  await goTo(page, svg);
  await page.locator('pre.text').getByText('<svg xmlns').waitFor();
  assert.equal(await page.locator('svg, img, iframe, object, embed').count(), 0);
  assert.match(await page.title(), /^images –/);
  check();
});

test('text is text, whatever it says', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('texts'));
  for (const [index, text] of expected<string[]>('texts').entries()) {
    await goTo(page, index);
    assert.equal(await page.locator('pre.text').textContent(), text);
  }
  assert.match(await page.title(), /^texts –/);
  await page.getByRole('tab', { name: 'Hex' }).click();
  const lines = (await page.locator('pre.hex').textContent())?.split('\n') ?? [];
  assert.equal(lines[0], '00000000  3c 69 6d 67 20 73 72 63  3d 78 20 6f 6e 65 72 72  <img src=x onerr');
  check();
});

test('numbers have their values and their shape', async () => {
  const { page, check } = await shared.open();
  const { record, values } = expected<{ record: number; values: number[] }>('tensor');
  await dropAndWait(page, store('tensor'));
  await goTo(page, record);
  await page.getByText('float64, 2 × 3 × 5: 30 values').waitFor();
  const read = async () =>
    ((await page.locator('pre.numbers').textContent()) ?? '').trim().split(/\s+/).map(Number);
  assert.deepEqual(await read(), values.slice(0, 15));
  await page.getByLabel('Matrix of 2').fill('1');
  assert.deepEqual(await read(), values.slice(15));

  await dropAndWait(page, store('fields'));
  await goTo(page, 4);
  await page.getByText('{label: 4, name: n4, box: [0, 0, 0, 0]}').waitFor();
  check();
});

test('tokens, waveforms and what has no type', async () => {
  const { page, check } = await shared.open();
  const { record, tokens } = expected<{ record: number; tokens: number[] }>('tokens');
  await dropAndWait(page, store('tokens'));
  await goTo(page, record);
  assert.equal(await page.locator('pre.tokens').textContent(), tokens.join(' '));
  await page.getByText(`${tokens.length} tokens.`).waitFor();

  await dropAndWait(page, store('sounds'));
  await goTo(page, 1);
  await page.getByText(/^16,000 values, from -\d+ to \d+\.$/).waitFor();
  // The curve is louder at its beginning than at its end.
  const heights = await page.locator('canvas.curve').evaluate((element) => {
    const canvas = element as HTMLCanvasElement;
    return [5, canvas.width - 5].map((x) => {
      const column = canvas.getContext('2d')?.getImageData(x, 0, 1, canvas.height).data ?? [];
      return Array.from(column).filter((value, at) => at % 4 === 3 && value > 0).length;
    });
  });
  assert.ok((heights[0] ?? 0) > 5 * (heights[1] ?? Infinity), String(heights));

  await dropAndWait(page, store('untyped'));
  await goTo(page, 1);
  assert.equal(await page.locator('pre.text').textContent(), 'plain text');
  await goTo(page, 2);
  await page.getByText('This image does not say how large it is').waitFor();
  check();
});

test('the contact sheet shows many records, and leads to each', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('hwc-rgb'));
  await showTab(page, 'Contact sheet');
  await page.locator('.sheet canvas').nth(23).waitFor();
  const { record, pixels: wanted } = expected<{ record: number; pixels: Colour }>('hwc-rgb');
  const first = await page
    .locator('.sheet canvas')
    .nth(record)
    .evaluate((element) =>
      Array.from((element as HTMLCanvasElement).getContext('2d')?.getImageData(0, 0, 1, 1).data ?? []).slice(
        0,
        3,
      ),
    );
  assert.deepEqual(first, wanted[0]?.[0]);
  await page.getByRole('button', { name: `Record ${record}`, exact: true }).click();
  await page.getByRole('heading', { name: `Record ${record}`, exact: true }).waitFor();
  same(await pixels(page), wanted);
  check();
});

test('the selection as .npy, and one record as it is', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('digits-extended-zstd'));
  const { record, pixels: wanted } = expected<{ record: number; pixels: Grey }>('digits');
  await goTo(page, record);
  await page.getByRole('grid').focus();
  await page.keyboard.press('Shift+ArrowDown');
  await page.keyboard.press('Shift+ArrowDown');
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Export .npy' }).click(),
  ]);
  assert.equal(download.suggestedFilename(), `digits-extended-zstd-${record}-${record + 2}.npy`);
  const bytes = readFileSync(await download.path());
  const head = bytes.readUInt16LE(8) + 10;
  assert.match(bytes.subarray(10, head).toString('latin1'), /'descr': '\|u1'.*'shape': \(3, 28, 28\)/);
  assert.equal(bytes.length - head, 3 * 784);
  assert.deepEqual([...bytes.subarray(head, head + 784)], wanted.flat());

  await goTo(page, record);
  const [one] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download' }).click(),
  ]);
  assert.deepEqual([...readFileSync(await one.path())], wanted.flat());
  check();
});

test('what is too much for one .npy, or no array, is refused in words', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('million'));
  const all = async () => {
    await page.getByRole('grid').focus();
    await page.keyboard.press('Home');
    await page.keyboard.press('Shift+End');
    await page.getByRole('button', { name: 'Export .npy' }).click();
  };
  await all();
  // 244 MiB are still exported, and 2^20 records as well; more records are not.
  await page.getByText(/1,000,000 records, 244 MiB/).waitFor({ timeout: 120_000 });
  await dropAndWait(page, store('large-classic'));
  await all();
  await page.getByText('16,777,216 records are more than are exported here').waitFor();
  await dropAndWait(page, store('tokens'));
  await all();
  await page.getByText(/Records 0 and \d+ differ in length/).waitFor();
  check();
});

test('a record is copied as it is shown', async () => {
  const { page, context, check } = await shared.open();
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await dropAndWait(page, store('tensor'));
  const { record, values } = expected<{ record: number; values: number[] }>('tensor');
  await goTo(page, record);
  const copied = async () => {
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByText(/^Copied [\d,]+ characters$/).waitFor();
    return page.evaluate(() => navigator.clipboard.readText());
  };
  const nested = JSON.parse(await copied()) as number[][][];
  assert.deepEqual(nested.flat(2), values);
  assert.deepEqual([nested.length, nested[0]?.length, nested[0]?.[0]?.length], [2, 3, 5]);
  await page.getByRole('tab', { name: 'Hex' }).click();
  await page.waitForTimeout(4100);
  assert.equal(await copied(), Buffer.from(new Float64Array(values).buffer).toString('hex'));
  check();
});

test('records without values, and of many axes, are no trap', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('hollow'));
  await page.getByText('float32, 1048576 × 0').first().waitFor();
  await page.getByText('no values').waitFor();
  await showTab(page, 'Contact sheet');
  await page.locator('.excerpt').nth(4).waitFor();
  check();
});
