import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { test } from 'node:test';

import { readAddress } from '../../src/data/address.ts';
import { coverage } from '../../src/data/coverage.ts';
import { count, percent, ratio, size, value } from '../../src/data/format.ts';
import { contentRange, lacking } from '../../src/data/http.ts';
import { isStoreName } from '../../src/data/names.ts';
import { npyHead } from '../../src/data/npy.ts';
import { indicesOf, toBigInts, toNumber } from '../../src/data/numbers.ts';
import { Checks } from '../../src/data/ranges.ts';
import { add, lengthBars, NOTHING, ratioBars } from '../../src/data/summary.ts';

test('integers of 64 bits become numbers or errors', () => {
  assert.equal(toNumber(2n ** 53n - 1n), Number.MAX_SAFE_INTEGER);
  assert.throws(() => toNumber(2n ** 53n), RangeError);
  assert.deepEqual([...indicesOf(5, 3)], [5n, 6n, 7n]);
  assert.deepEqual([...toBigInts([1, 2 ** 40])], [1n, 2n ** 40n]);
});

test('numbers for people', () => {
  assert.deepEqual([0, 1, 1023, 1024, 123_456, 2 ** 30, 2 ** 53].map(size), [
    '0 bytes',
    '1 byte',
    '1023 bytes',
    '1.00 KiB',
    '121 KiB',
    '1.00 GiB',
    '8.00 PiB',
  ]);
  assert.equal(size(1023.7 * 1024), '1.00 MiB');
  assert.equal(count(16_777_216), '16,777,216');
  assert.deepEqual([ratio(10, 4), ratio(0, 0)], ['2.50×', '–']);
  assert.deepEqual(
    [percent(0, 9), percent(9, 9), percent(1, 10_000), percent(9999, 10_000), percent(1, 4), percent(0, 0)],
    ['0 %', '100 %', '< 0.1 %', '> 99.9 %', '25.0 %', '0 %'],
  );
  assert.deepEqual([0, -0, NaN, Infinity, 1e9, 0.1 + 0.2, 1e-9, 3n, 'a'].map(value), [
    '0',
    '-0',
    'nan',
    'inf',
    '1.0000e+9',
    '0.3',
    '1.0000e-9',
    '3',
    'a',
  ]);
});

test('names of a store and no others', () => {
  for (const name of [
    'meta.zr',
    '0.zr',
    '4294967295.zr',
    'dict.zr',
    'dict.255.zr',
    'schema.msgpack',
    'meta.zr.new',
    'dict.7.zr.new',
  ]) {
    assert.ok(isStoreName(name), name);
  }
  for (const name of [
    '',
    'lock.zr',
    '00.zr',
    '-1.zr',
    '0.zr.new',
    'dict.0.zr',
    'dict.256.zr',
    '../meta.zr',
    'meta.zr/',
    '0.zr\n',
    'META.ZR',
  ]) {
    assert.ok(!isStoreName(name), name);
  }
});

test('answers of servers', () => {
  const headers = (list: Record<string, string>) => ({ get: (name: string) => list[name] ?? null });
  const range = { 'Content-Range': 'bytes 0-4095/123456' };
  assert.equal(lacking(206, headers(range)), undefined);
  assert.deepEqual(contentRange(headers(range)), { size: 123_456, length: 4096 });
  assert.match(lacking(200, headers({})) ?? '', /does not answer range requests/);
  assert.match(
    lacking(206, headers({ ...range, 'Content-Encoding': 'gzip' })) ?? '',
    /Content-Encoding: gzip/,
  );
  assert.match(lacking(206, headers({})) ?? '', /Access-Control-Expose-Headers/);
  assert.match(lacking(403, headers({})) ?? '', /403/);
  assert.equal(contentRange(headers({ 'Content-Range': 'bytes 0-1/*' })), undefined);
  assert.deepEqual(contentRange(headers({ 'Content-Range': 'bytes */0' })), { size: 0, length: 0 });
});

test('addresses of stores and records', () => {
  assert.deepEqual(readAddress(''), { record: 0 });
  assert.deepEqual(readAddress('#record=17'), { record: 17 });
  assert.deepEqual(readAddress('#url=https://a.b/c?token=x&y=2&record=9'), {
    url: 'https://a.b/c?token=x&y=2',
    record: 9,
  });
  assert.deepEqual(readAddress('#url=https%3A%2F%2Fa.b%2Fc'), { url: 'https://a.b/c', record: 0 });
  assert.deepEqual(readAddress('#url=/store/x'), { url: '/store/x', record: 0 });
  assert.deepEqual(readAddress(`#record=${'9'.repeat(30)}`), { record: 0 });
  assert.deepEqual(readAddress('#something'), { record: 0 });
});

test('heads of .npy', () => {
  const head = npyHead('<f4', 4, [3, 28, 28]);
  assert.equal(head.length % 64, 0);
  assert.equal(new DataView(head.buffer).getUint16(8, true), head.length - 10);
  assert.match(
    new TextDecoder('latin1').decode(head),
    /^\x93NUMPY\x01\x00..\{'descr': '<f4', 'fortran_order': False, 'shape': \(3, 28, 28\), \} *\n$/s,
  );
  assert.match(new TextDecoder('latin1').decode(npyHead('bfloat16', 2, [3])), /'descr': '\|V2'.*\(3,\)/);
  assert.match(
    new TextDecoder('latin1').decode(npyHead("[('x', '<f4')]", 4, [])),
    /'descr': \[\('x', '<f4'\)\].*\(\)/,
  );
  const long = npyHead(`[${"('x', '<f4'), ".repeat(6000)}]`, 4, [1]);
  assert.equal(long[6], 2);
  assert.equal(new DataView(long.buffer).getUint32(8, true), long.length - 12);
});

test('checked ranges grow together', () => {
  const checks = new Checks(true);
  const model = new Set<number>();
  let state = 3;
  for (let round = 0; round < 200; round += 1) {
    state = (state * 48_271) % 2_147_483_647;
    const [first, length] = [state % 500, state % 13];
    checks.add(first, length);
    for (let at = first; at < first + length; at += 1) model.add(at);
  }
  for (let at = 0; at < 520; at += 1)
    assert.equal(checks.of(at), model.has(at) ? 'intact' : 'unchecked', String(at));
  checks.addDamaged(3);
  assert.equal(checks.of(3), 'damaged');
  assert.equal(new Checks(false).of(0), 'none');
});

test('summaries add up, and their bars begin and end where something is', () => {
  const one = { ...NOTHING, records: 2, storedBytes: 5, plainBytes: 9, codecs: [1, 1, 0] };
  assert.deepEqual(add(one, one).codecs, [2, 2, 0]);
  assert.equal(add(one, NOTHING).plainBytes, 9);
  const lens = [...NOTHING.lens];
  [lens[0], lens[1], lens[11]] = [1, 2, 3];
  const bars = lengthBars(lens);
  assert.equal(bars.length, 12);
  assert.deepEqual(
    [bars[0]?.label, bars[1]?.label, bars[2]?.label, bars[11]?.label],
    ['0 bytes', '1 byte', '2 bytes to below 4 bytes', '1 KiB to below 2 KiB'],
  );
  const ratios = [...NOTHING.ratios];
  [ratios[0], ratios[80]] = [1, 1];
  assert.deepEqual(
    [ratioBars(ratios)[0]?.label, ratioBars(ratios)[80]?.label],
    ['1 to 1.09, or stored raw', '1.02e+3 and above'],
  );
  assert.deepEqual(lengthBars(NOTHING.lens), []);
});

test('coverage counts equal parts', () => {
  const whole = coverage(
    Array.from({ length: 1000 }, (_, at) => at),
    1000,
    8,
  );
  assert.deepEqual(whole.parts, new Array(8).fill(125));
  assert.deepEqual([whole.distinct, whole.even], [1000, 125]);
  assert.deepEqual(coverage([2, 2, 0], 3).parts, [1, 0, 2]);
  assert.equal(coverage([2 ** 52], 2 ** 53 - 1).parts.length, 64);
});

test('nothing on the page makes HTML of texts', () => {
  const folder = new URL('../../src/', import.meta.url);
  const names = readdirSync(folder, { recursive: true })
    .map(String)
    .filter((name) => name.endsWith('.ts'));
  assert.ok(names.length > 20);
  for (const name of names) {
    const text = readFileSync(new URL(name, folder), 'utf8');
    assert.doesNotMatch(
      text,
      /innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|srcdoc/,
      name,
    );
  }
});
