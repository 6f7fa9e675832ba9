// Whatever a store says of itself, what is read of it is a value or none.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { contentOf } from '../../src/data/content.ts';
import { parseDtype } from '../../src/data/dtype.ts';
import { imageHead } from '../../src/data/image_head.ts';
import { parseLiteral } from '../../src/data/literal.ts';
import { pictureOf } from '../../src/data/picture.ts';
import { failureOf, FailureError } from '../../src/worker/failure.ts';

/** The same numbers in every run. */
function generator(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
}

const PIECES = [
  "'",
  '"',
  '[',
  ']',
  '(',
  ')',
  ',',
  ' ',
  '\\',
  '<f4',
  '|u1',
  '>i8',
  '<U3',
  '|V0',
  "('x', '<f4')",
  "('', '|V4')",
  '(2, 3)',
  '9999999999999999999',
  '-1',
  'bfloat16',
  '\0',
  '🙂',
  '\\U0011ffff',
  '<M8[ns]',
  '<m8[',
  '|S',
  '|b1',
];

test('random dtypes are parsed or refused, and read within their bytes', () => {
  const random = generator(11);
  let parsed = 0;
  for (let round = 0; round < 20_000; round += 1) {
    const length = 1 + random(8);
    const middle = Array.from({ length }, () => PIECES[random(PIECES.length)]).join('');
    const text = random(2) === 0 ? middle : `[${middle}]`;
    parseLiteral(text);
    const dtype = parseDtype(text);
    if (!dtype) continue;
    parsed += 1;
    assert.ok(Number.isFinite(dtype.size) && dtype.size >= 0, text);
    if (dtype.size <= 4096) dtype.read(new DataView(new ArrayBuffer(dtype.size)), 0);
  }
  assert.ok(parsed > 100, `${parsed} were parsed`);
});

test('records of any bytes under any schema have something to show', () => {
  const random = generator(23);
  const dtypes = [
    '|u1',
    '<f4',
    '>i2',
    '<f2',
    'bfloat16',
    '<U2',
    '|V3',
    "[('a', '<f4'), ('b', '|u1', (3,))]",
    'float99',
    '|S0',
  ];
  for (let round = 0; round < 3000; round += 1) {
    const dtype = dtypes[random(dtypes.length)] ?? '';
    const itemShape = Array.from({ length: random(5) }, () => [0, 1, 3, 4, 7, 28, 2 ** 40][random(7)] ?? 0);
    const rowBytes = [0, 1, 4, 784, 2 ** 45][random(5)] ?? 0;
    const bytes = Uint8Array.from({ length: random(400) }, () => random(256));
    const schema = {
      kind: random(2) === 0 ? ('dense' as const) : ('ragged' as const),
      dtype,
      itemShape,
      rowBytes,
    };
    const content = contentOf({ schema }, bytes, bytes.length + random(2) * random(1 << 30));
    assert.equal(content.views.at(-1), 'hex');
    if (content.layout) pictureOf(bytes, content.dtype, content.layout);
  }
});

test('heads of images that were made up', () => {
  const random = generator(37);
  const starts = [
    '\x89PNG\r\n\x1a\n',
    '\xff\xd8\xff',
    'GIF89a',
    'RIFF\0\0\0\0WEBPVP8X',
    'RIFF\0\0\0\0WEBPVP8L',
    'RIFF\0\0\0\0WEBPVP8 ',
  ];
  for (let round = 0; round < 20_000; round += 1) {
    const start = [...(starts[random(starts.length)] ?? '')].map((character) => character.charCodeAt(0));
    const rest = Array.from({ length: random(64) }, () => (random(3) === 0 ? 0xff : random(256)));
    const size = imageHead(Uint8Array.from([...start, ...rest]))?.size;
    if (size) assert.ok(size.width > 0 && size.height > 0);
  }
});

test('every error is said in words, and only a trap is fatal', () => {
  const thrown = (payload: unknown) => Object.assign(new Error('thrown'), { payload });
  const cases: [unknown, string, RegExp][] = [
    [
      thrown({ tag: 'corrupt', val: { file: '0.zr', offset: 7n, index: 3n, reason: 'it is bad' } }),
      'corrupt',
      /^record 3: 0\.zr at byte 7: it is bad$/,
    ],
    [
      thrown({ tag: 'corrupt', val: { file: 'meta.zr', reason: 'it is bad' } }),
      'corrupt',
      /^meta\.zr: it is bad$/,
    ],
    [
      thrown({ tag: 'io', val: { file: '0.zr', code: { tag: 'no-entry' } } }),
      'io',
      /^0\.zr cannot be read: there is no such file$/,
    ],
    [
      thrown({ tag: 'io', val: { file: '0.zr', code: { tag: 'other', val: 'it moved' } } }),
      'io',
      /it moved$/,
    ],
    [
      thrown({ tag: 'out-of-range', val: { index: 9n, length: 3n } }),
      'out-of-range',
      /no record 9; the store has 3/,
    ],
    [
      thrown({ tag: 'too-large', val: { position: 0n, len: 9n, limit: 3n } }),
      'too-large',
      /has 9 bytes, more than the 3/,
    ],
    [thrown({ tag: 'too-large' }), 'too-large', /Too much/],
    [
      thrown({ tag: 'invalid-argument', val: { argument: 'seed', reason: 'is odd' } }),
      'invalid-argument',
      /^seed: is odd$/,
    ],
    [thrown({ tag: 'invalid-argument', val: 'batch_size is too large' }), 'invalid-argument', /^batch_size/],
    [thrown({ tag: 'not-a-store', val: 'It is none.' }), 'not-a-store', /^It is none\.$/],
    [thrown({ tag: 'poisoned' }), 'poisoned', /poisoned/],
    [new FailureError('page', 'No.'), 'page', /^No\.$/],
  ];
  for (const [error, kind, text] of cases) {
    const failure = failureOf(error);
    assert.equal(failure.kind, kind);
    assert.match(failure.text, text);
    assert.equal(failure.fatal, false);
  }
  const trap = failureOf(new WebAssembly.RuntimeError('unreachable'));
  assert.deepEqual([trap.kind, trap.fatal], ['trap', true]);
  assert.match(trap.text, /unreachable/);
});
