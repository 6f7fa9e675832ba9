import assert from 'node:assert/strict';
import { test } from 'node:test';

import { imageHead } from '../../src/data/image_head.ts';

const ascii = (text: string) => [...text].map((character) => character.charCodeAt(0));
const padded = (bytes: number[], length = 40) =>
  Uint8Array.from([...bytes, ...new Array<number>(Math.max(0, length - bytes.length)).fill(0)]);
const PNG = [0x89, ...ascii('PNG\r\n\x1a\n'), 0, 0, 0, 13, ...ascii('IHDR'), 0, 0, 1, 0, 0, 0, 2, 0];
const GIF = [...ascii('GIF89a'), 10, 0, 20, 1];
const VP8X = [
  ...ascii('RIFF'),
  0,
  0,
  0,
  0,
  ...ascii('WEBPVP8X'),
  10,
  0,
  0,
  0,
  0,
  0,
  0,
  0,
  0xff,
  1,
  0,
  0x0f,
  0,
  0,
];
const VP8L = [...ascii('RIFF'), 0, 0, 0, 0, ...ascii('WEBPVP8L'), 0, 0, 0, 0, 0x2f, 0x3f, 0xc0, 0x1f, 0];
const VP8 = [
  ...ascii('RIFF'),
  0,
  0,
  0,
  0,
  ...ascii('WEBPVP8 '),
  0,
  0,
  0,
  0,
  0,
  0,
  0,
  0x9d,
  1,
  0x2a,
  64,
  0,
  32,
  0,
];
const JPEG = [
  0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 2, 0xff, 0xff, 0xc4, 0, 3, 0, 0xff, 0xc2, 0, 11, 8, 0, 100, 0, 200,
];

test('sizes of images by their heads', () => {
  const of = (bytes: number[]) => {
    const head = imageHead(padded(bytes));
    return head && `${head.type} ${head.size?.width}x${head.size?.height}`;
  };
  assert.equal(of(PNG), 'image/png 256x512');
  assert.equal(of(GIF), 'image/gif 10x276');
  assert.equal(of(VP8X), 'image/webp 512x16');
  assert.equal(of(VP8L), 'image/webp 64x128');
  assert.equal(of(VP8), 'image/webp 64x32');
  assert.equal(of(JPEG), 'image/jpeg 200x100');
});

test('heads that were cut anywhere are no trap, and say no size', () => {
  for (const image of [PNG, GIF, VP8X, VP8L, VP8, JPEG]) {
    for (let length = 0; length < image.length; length += 1) {
      const head = imageHead(Uint8Array.from(image.slice(0, length)));
      if (length < 10) assert.equal(head?.size, undefined);
    }
  }
  assert.equal(imageHead(padded([0xff, 0xd8, 0xff, 0xda, 0, 2]))?.size, undefined);
  assert.equal(imageHead(padded([0xff, 0xd8, 0xff, 0xe0, 0, 0]))?.size, undefined);
});

test('an image of no pixels has no size', () => {
  assert.equal(imageHead(padded([...ascii('GIF89a'), 0, 0, 20, 1]))?.size, undefined);
});

test('SVG and text are no images', () => {
  assert.equal(imageHead(new TextEncoder().encode('<svg xmlns="http://www.w3.org/2000/svg"/>')), undefined);
  assert.equal(imageHead(new Uint8Array()), undefined);
});
