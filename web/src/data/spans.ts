// Which blocks of a file a list of spans needs, and in which runs to read them.

export interface Span {
  offset: number;
  length: number;
}

/** What of the spans lies in a file of `size` bytes: nothing behind the first
 * span that the file ends in. */
export function clip(spans: readonly Span[], size: number): Span[] {
  const clipped: Span[] = [];
  for (const { offset, length } of spans) {
    const there = Math.max(0, Math.min(length, size - offset));
    clipped.push({ offset, length: there });
    if (there < length) break;
  }
  return clipped;
}

/** The numbers of the blocks that the spans touch, ascending. */
export function blocksOf(spans: readonly Span[], blockBytes: number): number[] {
  const blocks = new Set<number>();
  for (const { offset, length } of spans) {
    if (length === 0) continue;
    const last = Math.floor((offset + length - 1) / blockBytes);
    for (let block = Math.floor(offset / blockBytes); block <= last; block += 1) blocks.add(block);
  }
  return [...blocks].sort((one, other) => one - other);
}

export interface Run {
  first: number;
  count: number;
}

/** Ascending blocks as runs: gaps of up to `gap` blocks are read through, since
 * a read costs more than they do. No run is longer than `longest`. */
export function runsOf(blocks: readonly number[], gap: number, longest: number): Run[] {
  const runs: Run[] = [];
  for (const block of blocks) {
    const run = runs.at(-1);
    const count = run ? block - run.first + 1 : 0;
    if (run && block - (run.first + run.count) <= gap && count <= longest) run.count = count;
    else runs.push({ first: block, count: 1 });
  }
  return runs;
}
