import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ScaledScroll, TRACK_MAX } from '../../src/data/scroll.ts';

const LENGTHS = [0, 1, 10, 1000, 285_714, 285_715, 2 ** 24, 10 ** 8, 2 ** 40];

test('the ends of the bar are those of the list', () => {
  for (const rows of LENGTHS) {
    for (const viewport of [33, 400, 777.5]) {
      const scroll = new ScaledScroll(rows, 28, viewport);
      scroll.moveToBar(scroll.track);
      const { first, count } = scroll.visible();
      assert.equal(first + count, rows);
      assert.ok(scroll.bar <= Math.max(0, scroll.track - viewport) + 1);
      scroll.moveToBar(0);
      assert.equal(scroll.visible().first, 0);
    }
  }
});

test('where the bar is put it stays', () => {
  const scroll = new ScaledScroll(10 ** 8, 28, 500);
  for (const row of [0, 1, 99, 31_415_926, 10 ** 8 - 20]) {
    scroll.moveTo(row * 28);
    const top = scroll.top;
    // The browser tells the place that it was given, rounded.
    assert.ok(Math.abs(scroll.bar - Math.round(scroll.bar)) < 1e-9);
    assert.equal(scroll.top, top);
  }
});

test('a notch of the wheel moves by its pixels, also where the bar is scaled', () => {
  const scroll = new ScaledScroll(2 ** 24, 28, 500);
  scroll.moveTo(28 * 1_000_000);
  scroll.moveBy(112);
  assert.equal(scroll.visible().first, 1_000_004);
  scroll.moveBy(-28 * 4);
  assert.equal(scroll.visible().first, 1_000_000);
});

test('a scaled bar stops at whole rows', () => {
  const scroll = new ScaledScroll(2 ** 24, 28, 500);
  scroll.moveToBar(1_234_567);
  assert.equal(scroll.top % 28, 0);
  const expected = (1_234_567 / (TRACK_MAX - 500)) * (2 ** 24 * 28 - 500);
  assert.ok(Math.abs(scroll.top - expected) <= 14);
});

test('revealing moves no further than needed, and what is far into the middle', () => {
  const scroll = new ScaledScroll(1000, 28, 280);
  scroll.reveal(5);
  assert.equal(scroll.top, 0);
  scroll.reveal(10);
  assert.equal(scroll.top, 28);
  scroll.reveal(0);
  assert.equal(scroll.top, 0);
  scroll.reveal(500);
  assert.equal(scroll.top, 28 * 496);
  scroll.reveal(999);
  assert.equal(scroll.top, scroll.topMax);
});
