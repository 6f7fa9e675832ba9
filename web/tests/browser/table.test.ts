// The table at its ends, in the middle, and by every way there.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Page } from 'playwright-core';

import { dropAndWait } from './browser.ts';
import { setting, store } from './setting.ts';

const shared = setting();
const ROW = 28;
const HEAD = 33;

interface Seen {
  index: number;
  rowIndex: number;
  cells: string[];
  top: number;
}

/** The rows that can be seen, once their entries are there. */
async function seen(page: Page): Promise<Seen[]> {
  await page.waitForFunction(() => {
    const rows = [...document.querySelectorAll('.layer .row:not([hidden])')];
    return rows.length > 0 && rows.every((row) => row.children[1]?.textContent !== '·');
  });
  // Two frames: one that draws, one after it.
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  return page.locator('.layer').evaluate((layer) => {
    const edge = layer.getBoundingClientRect();
    return [...layer.querySelectorAll<HTMLElement>('.row:not([hidden])')]
      .map((row) => ({
        index: Number(row.dataset['index']),
        rowIndex: Number(row.getAttribute('aria-rowindex')),
        cells: [...row.children].map((cell) => cell.textContent ?? ''),
        top: row.getBoundingClientRect().top - edge.top,
        bottom: row.getBoundingClientRect().bottom - edge.bottom,
      }))
      .filter(({ top, bottom }) => top > -27.5 && bottom < 27.5)
      .sort((one, other) => one.index - other.index);
  });
}

function consecutive(rows: Seen[]): void {
  rows.forEach((row, position) => {
    assert.equal(row.index, (rows[0]?.index ?? 0) + position);
    assert.equal(row.rowIndex, row.index + 2);
    assert.equal(row.cells[0], row.index.toLocaleString('en'));
  });
}

/** Entries of `large-classic` tell their index. */
function checkPlaces(rows: Seen[]): void {
  consecutive(rows);
  for (const { index, cells } of rows) {
    assert.equal(cells[1], String(index >> 18));
    assert.equal(cells[2], ((index % 2 ** 18) * 64).toLocaleString('en'));
    const length = 1 + (index % 61);
    assert.equal(cells[4], length === 1 ? '1 byte' : `${length} bytes`);
  }
}

async function goTo(page: Page, index: number): Promise<void> {
  await page.getByLabel('Go to record').fill(String(index));
  await page.getByRole('button', { name: 'Go', exact: true }).click();
}

/** Drags the thumb of the scrollbar by so many pixels. */
async function dragBar(page: Page, from: number, by: number): Promise<void> {
  const box = await page.locator('.grid').boundingBox();
  assert.ok(box);
  const x = box.x + box.width - 6;
  await page.mouse.move(x, box.y + from);
  await page.mouse.down();
  await page.mouse.move(x, box.y + from + by / 2, { steps: 4 });
  await page.mouse.move(x, box.y + from + by, { steps: 4 });
  await page.mouse.up();
}

for (const [name, length] of [
  ['large-classic', 2 ** 24],
  ['huge-extended', 10 ** 8],
] as const) {
  const isLarge = name === 'large-classic';

  test(`${name}: every way leads to exactly the right rows`, async () => {
    const { page, check } = await shared.open();
    await dropAndWait(page, store(name));
    const grid = page.getByRole('grid', { name: 'Records' });
    assert.equal(await grid.getAttribute('aria-rowcount'), String(length + 1));
    const places = isLarge ? checkPlaces : consecutive;
    places(await seen(page));

    await grid.focus();
    await page.keyboard.press('End');
    let rows = await seen(page);
    places(rows);
    assert.equal(rows.at(-1)?.index, length - 1);
    await page.getByRole('heading', { name: `Record ${(length - 1).toLocaleString('en')}` }).waitFor();

    const typed = Math.floor(length * 0.31415926);
    await goTo(page, typed);
    rows = await seen(page);
    places(rows);
    assert.ok(rows.some(({ index }) => index === typed));
    assert.equal(await page.locator('.row.cursor').getAttribute('data-index'), String(typed));

    // A notch of the wheel is 100 pixels here, wherever in the list.
    const before = rows[0];
    await page.locator('.grid').hover();
    await page.mouse.wheel(0, 100);
    await page.waitForTimeout(100);
    rows = await seen(page);
    places(rows);
    assert.ok(before && rows[0]);
    const moved = (rows[0].index - before.index) * ROW - (rows[0].top - before.top);
    assert.ok(Math.abs(moved - 100) < 1, `moved by ${moved} pixels`);

    await grid.focus();
    await page.keyboard.press('Home');
    rows = await seen(page);
    places(rows);
    assert.equal(rows[0]?.index, 0);
    await page.keyboard.press('PageDown');
    await page.keyboard.press('ArrowDown');
    const rowsOfPage = Number(await page.locator('.row.cursor').getAttribute('data-index')) - 1;
    const fits = Math.floor(
      ((await page.locator('.grid').evaluate((scroller) => scroller.clientHeight)) - HEAD) / ROW,
    );
    assert.equal(rowsOfPage, fits);

    await page.keyboard.press('Home');
    await seen(page);
    await dragBar(page, 24, 2000);
    rows = await seen(page);
    places(rows);
    assert.equal(rows.at(-1)?.index, length - 1, 'the bar dragged to its end');
    const height = (await page.locator('.grid').boundingBox())?.height ?? 0;
    await dragBar(page, height - 24, -height / 2 + 24);
    rows = await seen(page);
    places(rows);
    // Where the bar stands is told by the browser.
    const at = await page
      .locator('.grid')
      .evaluate((scroller) => scroller.scrollTop / (scroller.scrollHeight - scroller.clientHeight));
    assert.ok(at > 0.3 && at < 0.7);
    const row = Math.round((at * (length * ROW - height + HEAD)) / ROW);
    assert.ok(
      Math.abs((rows[0]?.index ?? 0) - row) <= length / 8_000_000 + 1,
      `row ${rows[0]?.index}, bar at ${row}`,
    );
    await dragBar(page, 24 + at * (height - 48), -2000);
    rows = await seen(page);
    assert.equal(rows[0]?.index, 0, 'the bar dragged to its beginning');

    assert.ok((await page.locator('[role=row]').count()) <= 200);
    check();
  });
}

test('entries far inside a store of 10^8 records', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('huge-extended'));
  await goTo(page, 31_415_926);
  const rows = await seen(page);
  const row = rows.find(({ index }) => index === 31_415_926);
  assert.deepEqual(row?.cells.slice(1, 5), ['0', '31,415,926', '1000 bytes', '1000 bytes']);
  assert.equal(rows.find(({ index }) => index === 31_415_927)?.cells[4], '0 bytes');
  check();
});

test('a short list scrolls as the browser does, and selects ranges', async () => {
  const { page, check } = await shared.open();
  await dropAndWait(page, store('digits-extended-zstd'));
  await page.locator('.grid').hover();
  await page.mouse.wheel(0, 280);
  await page.waitForTimeout(600);
  assert.equal((await seen(page))[0]?.index, 10);
  await page.locator('.row[data-index="12"]').click();
  await page.locator('.row[data-index="15"]').click({ modifiers: ['Shift'] });
  await page.getByText('4 records, 12 to 15').waitFor();
  assert.equal(await page.locator('.row[aria-selected=true]').count(), 4);
  check();
});

test('a finger moves a scaled list by its pixels', async () => {
  const { page, context, check } = await shared.open({ hasTouch: true });
  await dropAndWait(page, store('large-classic'));
  await goTo(page, 1_000_000);
  const [before] = await seen(page);
  const session = await context.newCDPSession(page);
  const box = await page.locator('.grid').boundingBox();
  assert.ok(box && before);
  const [x, top] = [box.x + 100, box.y + 300];
  await session.send('Input.dispatchTouchEvent', { type: 'touchStart', touchPoints: [{ x, y: top }] });
  for (let by = 10; by <= 200; by += 10) {
    await session.send('Input.dispatchTouchEvent', { type: 'touchMove', touchPoints: [{ x, y: top - by }] });
    await page.waitForTimeout(20);
  }
  await page.waitForTimeout(200);
  await session.send('Input.dispatchTouchEvent', { type: 'touchEnd', touchPoints: [] });
  await page.waitForTimeout(500);
  const rows = await seen(page);
  checkPlaces(rows);
  const [after] = rows;
  assert.ok(after);
  const moved = (after.index - before.index) * ROW - (after.top - before.top);
  // Browsers take the first pixels for themselves.
  assert.ok(moved > 150 && moved <= 201, `moved by ${moved} pixels`);
  check();
});
