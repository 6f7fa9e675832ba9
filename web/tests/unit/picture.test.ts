import assert from 'node:assert/strict';
import { test } from 'node:test';

import { contentOf, isText } from '../../src/data/content.ts';
import { parseDtype } from '../../src/data/dtype.ts';
import { normalisation, pictureLayout, pictureOf } from '../../src/data/picture.ts';

const U1 = parseDtype('|u1');
const F4 = parseDtype('<f4');
assert.ok(U1 && F4);

test('shapes that are pictures, and how', () => {
  const orders = (shape: number[]) => {
    const layout = pictureLayout(shape);
    return layout && `${layout.order} ${layout.height}x${layout.width}x${layout.channels}`;
  };
  assert.equal(orders([28, 28]), 'HW 28x28x1');
  assert.equal(orders([32, 16, 3]), 'HWC 32x16x3');
  assert.equal(orders([3, 32, 16]), 'CHW 32x16x3');
  assert.equal(orders([1, 3, 32, 16]), 'CHW 32x16x3');
  assert.equal(orders([1, 28, 28]), 'CHW 28x28x1');
  // Only one reading makes sides of both: channels last.
  assert.equal(orders([4, 4, 4]), 'HWC 4x4x4');
  for (const shape of [[], [5], [3, 3], [2, 1000], [5, 5, 5], [2, 3, 5, 5], [100_000, 8], [4, 4096]]) {
    assert.equal(orders(shape), undefined, String(shape));
  }
});

test('normalisations say what is black and white', () => {
  assert.deepEqual([normalisation(U1, 7, 9).low, normalisation(U1, 7, 9).high], [0, 255]);
  assert.deepEqual([normalisation(F4, 0, 0.5).low, normalisation(F4, 0, 0.5).high], [0, 1]);
  assert.deepEqual([normalisation(F4, -0.5, 0.5).low, normalisation(F4, -0.5, 0.5).high], [-1, 1]);
  assert.deepEqual([normalisation(F4, 0, 200).low, normalisation(F4, 0, 200).high], [0, 255]);
  assert.deepEqual([normalisation(F4, -3, 2).low, normalisation(F4, -3, 2).high], [-3, 2]);
  assert.match(normalisation(F4, -3, 2).text, /-3 \(lowest\) is black, 2 \(highest\) is white/);
});

test('pixels of every order of channels', () => {
  const pixel = (picture: ReturnType<typeof pictureOf>, at: number) =>
    picture && [...picture.pixels.subarray(4 * at, 4 * at + 4)];
  const plane = Array.from({ length: 16 }, (_, at) => at);
  const hw = pictureOf(Uint8Array.from(plane), U1, { height: 4, width: 4, channels: 1, order: 'HW' });
  assert.deepEqual(pixel(hw, 5), [5, 5, 5, 255]);
  const hwc = pictureOf(Uint8Array.from(plane.flatMap((at) => [at, at + 50, at + 100])), U1, {
    height: 4,
    width: 4,
    channels: 3,
    order: 'HWC',
  });
  const chw = pictureOf(Uint8Array.from([0, 50, 100].flatMap((more) => plane.map((at) => at + more))), U1, {
    height: 4,
    width: 4,
    channels: 3,
    order: 'CHW',
  });
  assert.deepEqual(pixel(hwc, 7), [7, 57, 107, 255]);
  assert.deepEqual(pixel(chw, 7), [7, 57, 107, 255]);
  const alpha = pictureOf(Uint8Array.from(plane.flatMap((at) => [at, 200])), U1, {
    height: 4,
    width: 4,
    channels: 2,
    order: 'HWC',
  });
  assert.deepEqual(pixel(alpha, 3), [3, 3, 3, 200]);
});

test('values that are no numbers, and pictures of one value, do no harm', () => {
  const bytes = new Uint8Array(
    new Float32Array([NaN, Infinity, -Infinity, 0.5, ...new Array<number>(12).fill(0.5)]).buffer,
  );
  const layout = { height: 4, width: 4, channels: 1, order: 'HW' } as const;
  const picture = pictureOf(bytes, F4, layout);
  assert.deepEqual(
    [0, 1, 2].map((at) => picture?.pixels[4 * at]),
    [0, 255, 0],
  );
  const flat = pictureOf(new Uint8Array(64).fill(0x42), F4, layout);
  assert.equal(flat?.pixels[3], 255);
  assert.equal(pictureOf(new Uint8Array(63), F4, layout), undefined);
});

const schema = (kind: 'dense' | 'ragged', dtype: string, itemShape: number[], rowBytes: number) => ({
  schema: { kind, dtype, itemShape, rowBytes },
});

test('what records are shown as', () => {
  const views = (type: object, bytes: Uint8Array, length = bytes.length) =>
    contentOf(type, bytes, length).views.join(' ');
  const text = new TextEncoder().encode('some text, é');
  assert.equal(views({}, text), 'text numbers hex');
  assert.equal(views({}, Uint8Array.from([0, 1, 2])), 'numbers hex');
  assert.equal(views({}, new Uint8Array()), 'numbers hex');
  assert.equal(views(schema('dense', '|u1', [28, 28], 784), new Uint8Array(784)), 'picture numbers hex');
  assert.equal(views(schema('ragged', '|u1', [], 1), text), 'text numbers hex');
  assert.equal(views(schema('ragged', '<u2', [], 2), new Uint8Array(40)), 'tokens numbers hex');
  assert.equal(
    views(schema('ragged', '<i2', [], 2), new Uint8Array(2000).fill(0xfe)),
    'waveform numbers hex',
  );
  assert.equal(views(schema('dense', '<f4', [5], 20), new Uint8Array(20)), 'numbers hex');
  // A type that this page does not know is bytes.
  assert.equal(views(schema('dense', 'float99', [5], 20), new Uint8Array(20)), 'numbers hex');
  const png = Uint8Array.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  assert.equal(views(schema('ragged', '|u1', [], 1), png), 'image numbers hex');
  assert.deepEqual(contentOf(schema('ragged', '<f4', [3], 12), new Uint8Array(36), 36).shape, [3, 3]);
  assert.deepEqual(contentOf(schema('ragged', '<f4', [0], 0), new Uint8Array(), 0).shape, [0, 0]);
});

test('text that was cut within a character is text', () => {
  const bytes = new TextEncoder().encode('é'.repeat(10));
  assert.ok(isText(bytes.subarray(0, 19), 20));
  assert.ok(!isText(bytes.subarray(0, 19), 19));
  assert.ok(!isText(Uint8Array.from([0xff, 0xfe]), 2));
});
