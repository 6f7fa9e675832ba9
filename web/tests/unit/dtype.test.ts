import assert from 'node:assert/strict';
import { test } from 'node:test';

import { parseDtype } from '../../src/data/dtype.ts';
import { decodeMinifloat, HALF, MINIFLOATS } from '../../src/data/minifloat.ts';
import { parseLiteral } from '../../src/data/literal.ts';

function read(text: string, ...bytes: number[]) {
  const dtype = parseDtype(text);
  assert.ok(dtype, text);
  assert.equal(dtype.size, bytes.length, text);
  // An odd position, since records lie anywhere.
  const buffer = Uint8Array.from([255, ...bytes, 255]);
  return dtype.read(new DataView(buffer.buffer), 1);
}

test('values of NumPy in both byte orders', () => {
  assert.equal(read('|b1', 1), 1);
  assert.equal(read('|i1', 0xff), -1);
  assert.equal(read('|u1', 0xff), 255);
  assert.equal(read('<i2', 0xfe, 0xff), -2);
  assert.equal(read('>i2', 0xff, 0xfe), -2);
  assert.equal(read('<u4', 1, 0, 0, 0x80), 2 ** 31 + 1);
  assert.equal(read('<i8', ...new Array<number>(8).fill(255)), -1n);
  assert.equal(read('>u8', 0, 0, 0, 0, 0, 0, 1, 0), 256n);
  assert.equal(read('<f2', 0x00, 0x3c), 1);
  assert.equal(read('>f4', 0x3f, 0x80, 0, 0), 1);
  assert.equal(read('<f8', 0, 0, 0, 0, 0, 0, 0xf8, 0xbf), -1.5);
  assert.equal(read('<c8', 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0), '1-2j');
  assert.equal(read('|S4', 0x61, 0x22, 0xff, 0), 'a"\\xff');
  assert.equal(read('<U2', 0xe9, 0, 0, 0, 0, 0, 0, 0), 'é');
  assert.equal(read('|V2', 0xab, 1), 'ab01');
  assert.equal(read('<M8[s]', 0, 0, 0, 0, 0, 0, 0, 0), '1970-01-01T00:00:00Z');
  assert.equal(read('<M8[ns]', 0, 0, 0, 0, 0, 0, 0, 0x80), 'NaT');
  assert.equal(read('<m8[us]', 7, 0, 0, 0, 0, 0, 0, 0), '7 us');
  assert.equal(read('<M8[25s]', 7, 0, 0, 0, 0, 0, 0, 0), '7 25s');
});

test('values of ml_dtypes', () => {
  assert.equal(read('bfloat16', 0x80, 0x3f), 1);
  assert.equal(read('bfloat16', 0xc0, 0x7f), NaN);
  assert.equal(read('float8_e8m0fnu', 127), 1);
  assert.equal(read('float8_e8m0fnu', 255), NaN);
  assert.equal(read('int4', 0x0f), -1);
  assert.equal(read('uint4', 0xff), 15);
  assert.equal(read('int1', 1), -1);
  assert.equal(read('complex32', 0, 0x3c, 0, 0xc0), '1-2j');
});

test('small floats at their ends', () => {
  const of = (name: string, bits: number) => decodeMinifloat(bits, MINIFLOATS[name] ?? HALF);
  // Largest, smallest and special values as ml_dtypes documents them.
  assert.equal(of('float8_e4m3fn', 0x7e), 448);
  assert.equal(of('float8_e4m3fn', 0x7f), NaN);
  assert.equal(of('float8_e4m3fn', 0x01), 2 ** -9);
  assert.equal(of('float8_e4m3', 0x78), Infinity);
  assert.equal(of('float8_e4m3', 0x77), 240);
  assert.equal(of('float8_e4m3fnuz', 0x80), NaN);
  assert.equal(of('float8_e4m3fnuz', 0x7f), 240);
  assert.equal(of('float8_e4m3b11fnuz', 0x7f), 30);
  assert.equal(of('float8_e5m2', 0x7b), 57_344);
  assert.equal(of('float8_e5m2', 0xfc), -Infinity);
  assert.equal(of('float8_e5m2fnuz', 0x7f), 57_344);
  assert.equal(of('float8_e3m4', 0x6f), 15.5);
  assert.equal(of('float4_e2m1fn', 0x0f), -6);
  assert.equal(of('float6_e2m3fn', 0x1f), 7.5);
  assert.equal(of('float6_e3m2fn', 0x1f), 28);
  assert.equal(of('none: a half', 0x7bff), 65_504);
  assert.equal(of('none: a half', 0x0001), 2 ** -24);
});

test('structured types', () => {
  const text = "[('x', '<f4'), ('', '|V4'), (('title', 'pair'), '<i2', (2,)), ('in', [('a', '|u1')])]";
  const dtype = parseDtype(text);
  assert.equal(dtype?.size, 13);
  const bytes = Uint8Array.from([0, 0, 0x80, 0x3f, 9, 9, 9, 9, 1, 0, 0xff, 0xff, 5]);
  assert.equal(dtype?.read(new DataView(bytes.buffer), 0), '{x: 1, pair: [1, -1], in: {a: 5}}');
});

test('what is no type is none, and never a trap', () => {
  const texts = [
    '',
    '<f',
    '<f3x',
    '<i3',
    '|O',
    '<z4',
    'float9',
    '[',
    "[('x')]",
    "[('x', '<f4'",
    '(((',
    "[('a', '<f4', ('b',))]",
    '['.repeat(1e5),
    "[('', 5)]",
  ];
  for (const text of texts) assert.equal(parseDtype(text), undefined, text.slice(0, 20));
});

test('types that cannot be read as numbers are shown as bytes', () => {
  assert.equal(parseDtype('<f16')?.kind, 'void');
  assert.equal(parseDtype('<c32')?.size, 32);
});

test('literals of Python', () => {
  assert.deepEqual(parseLiteral("[('a', \"b'\"), (1, 23,), []]"), [['a', "b'"], [1, 23], []]);
  assert.equal(parseLiteral("'\\'\\\\\\U0000000a\\x41'"), "'\\\nA");
  assert.equal(parseLiteral("'open"), undefined);
  assert.equal(parseLiteral('1 2'), undefined);
});
