import assert from 'node:assert/strict';
import { test } from 'node:test';

import { blocksOf, clip, runsOf, type Span } from '../../src/data/spans.ts';
import { BlockCache, BlockFile } from '../../src/worker/blocks.ts';

const FILE = Uint8Array.from({ length: 10_007 }, (_, at) => (at * 31 + (at >> 5)) & 255);

/** A file of memory that counts what is read of it. */
function counting(bytes: Uint8Array) {
  const reads: Span[][] = [];
  const fetch = (spans: Span[], take: (reads: Uint8Array[]) => void) => {
    reads.push(spans);
    take(spans.map(({ offset, length }) => bytes.slice(offset, offset + length)));
  };
  return { size: bytes.length, fetch, reads };
}

test('spans end where the file does, and nothing follows', () => {
  const spans = [
    { offset: 0, length: 4 },
    { offset: 8, length: 4 },
    { offset: 1, length: 2 },
  ];
  assert.deepEqual(clip(spans, 10), [
    { offset: 0, length: 4 },
    { offset: 8, length: 2 },
  ]);
  assert.deepEqual(clip([{ offset: 99, length: 1 }], 10), [{ offset: 99, length: 0 }]);
});

test('blocks are found once, in order', () => {
  const spans = [
    { offset: 250, length: 20 },
    { offset: 0, length: 1 },
    { offset: 9, length: 0 },
    { offset: 99, length: 2 },
  ];
  assert.deepEqual(blocksOf(spans, 100), [0, 1, 2]);
});

test('runs read through small gaps and are not too long', () => {
  assert.deepEqual(runsOf([0, 1, 3, 7], 1, 100), [
    { first: 0, count: 4 },
    { first: 7, count: 1 },
  ]);
  assert.deepEqual(runsOf([0, 1, 2, 3, 4], 0, 2), [
    { first: 0, count: 2 },
    { first: 2, count: 2 },
    { first: 4, count: 1 },
  ]);
});

test('whatever is asked in whatever order, the bytes are those of the file', () => {
  let state = 1;
  const random = (below: number) => {
    state = (state * 48_271) % 2_147_483_647;
    return state % below;
  };
  for (const sizes of [
    { block: 64, gap: 0, ahead: 0 },
    { block: 100, gap: 2, ahead: 8 },
    { block: 4096, gap: 1, ahead: 2 },
  ]) {
    const source = counting(FILE);
    // A cache that is too small for one call must not lose its blocks.
    const file = new BlockFile('x', source, new BlockCache(3 * sizes.block), sizes);
    for (let round = 0; round < 300; round += 1) {
      const spans = Array.from({ length: 1 + random(6) }, () => ({
        offset: random(11_000),
        length: random(900),
      }));
      const expected: number[] = [];
      for (const { offset, length } of spans) {
        const part = FILE.subarray(Math.min(offset, FILE.length), Math.min(offset + length, FILE.length));
        expected.push(...part);
        if (part.length < length) break;
      }
      assert.deepEqual([...file.read(spans)], expected);
    }
    for (const span of source.reads.flat()) assert.ok(span.offset + span.length <= FILE.length);
  }
});

test('what was read is kept, and one call is one read', () => {
  const source = counting(FILE);
  const file = new BlockFile('x', source, new BlockCache(1 << 20), { block: 100, gap: 1, ahead: 0 });
  file.read([
    { offset: 5000, length: 10 },
    { offset: 20, length: 10 },
  ]);
  assert.equal(source.reads.length, 1);
  assert.equal(source.reads[0]?.length, 2);
  file.read([
    { offset: 5005, length: 3 },
    { offset: 0, length: 99 },
  ]);
  assert.equal(source.reads.length, 1);
});

test('reading in order takes fewer and longer reads', () => {
  const source = counting(FILE);
  const file = new BlockFile('x', source, new BlockCache(1 << 20), { block: 100, gap: 1, ahead: 16 });
  for (let at = 0; at < FILE.length; at += 50) {
    assert.deepEqual([...file.read([{ offset: at, length: 50 }])], [...FILE.subarray(at, at + 50)]);
  }
  assert.ok(source.reads.length < 15, `${source.reads.length} reads`);
});

test('a file that was cut under the reader is an error of its own', () => {
  const file = new BlockFile(
    'x',
    { size: 200, fetch: (_, take) => take([new Uint8Array(50)]) },
    new BlockCache(999),
    { block: 100, gap: 0, ahead: 0 },
  );
  assert.throws(
    () => file.read([{ offset: 60, length: 10 }]),
    (error) => (error as { tag?: string }).tag === 'io',
  );
});

test('bytes that come later are there when they are asked for again', () => {
  let deliver: (() => void) | undefined;
  const later = {
    size: FILE.length,
    fetch: (spans: Span[], take: (reads: Uint8Array[]) => void) => {
      deliver = () => take(spans.map(({ offset, length }) => FILE.slice(offset, offset + length)));
      throw { tag: 'other', val: 'not read yet' };
    },
  };
  const cache = new BlockCache(150);
  const file = new BlockFile('x', later, cache, { block: 100, gap: 0, ahead: 4 });
  cache.hold(true);
  for (let at = 0; at < 5000; at += 777) {
    const span = [{ offset: at, length: 500 }];
    assert.throws(() => file.read(span));
    deliver?.();
    assert.deepEqual(file.read(span), FILE.slice(at, at + 500));
  }
  assert.deepEqual(file.read([{ offset: 0, length: 500 }]), FILE.slice(0, 500), 'what is held stays');
  cache.hold(false);
  assert.throws(() => file.read([{ offset: 0, length: 500 }]), 'and goes afterwards');
});
