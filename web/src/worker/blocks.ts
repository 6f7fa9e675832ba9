// Reads of a file through blocks: what is near each other is read at once, and
// what was read is kept for a while.

import { blocksOf, clip, runsOf, type Run, type Span } from '../data/spans.ts';

/** A file that can be read by position. */
export interface ByteFile {
  readonly size: number;
  /** Gives `take` the bytes of each span, all of which lie in the file: now, or
   * later, and then it throws for the time being. */
  fetch(spans: Span[], take: (reads: Uint8Array[]) => void): void;
}

export interface BlockSizes {
  /** The bytes of a block. */
  block: number;
  /** Gaps of so many blocks are read through. */
  gap: number;
  /** Reads in order are widened to so many blocks. */
  ahead: number;
}

/** Blocks of all files, those least recently used thrown away. */
export class BlockCache {
  private readonly blocks = new Map<string, Uint8Array>();
  private bytes = 0;
  private isHeld = false;

  constructor(private readonly bytesMax: number) {}

  get(key: string): Uint8Array | undefined {
    const block = this.blocks.get(key);
    if (block) {
      this.blocks.delete(key);
      this.blocks.set(key, block);
    }
    return block;
  }

  set(key: string, block: Uint8Array): void {
    this.bytes += block.length - (this.blocks.get(key)?.length ?? 0);
    this.blocks.set(key, block);
    this.trim();
  }

  /** While a call is made again and again until all that it needs is there,
   * nothing is thrown away. */
  hold(isHeld: boolean): void {
    this.isHeld = isHeld;
    this.trim();
  }

  private trim(): void {
    if (this.isHeld) return;
    for (const [oldest, { length }] of this.blocks) {
      if (this.bytes <= this.bytesMax) break;
      this.blocks.delete(oldest);
      this.bytes -= length;
    }
  }
}

/** No read is longer. */
const RUN_BYTES = 4 << 20;

export class BlockFile {
  /** Where the last read ended, and how far it was widened. */
  private next = -1;
  private ahead = 0;
  /** The block that was read last. */
  private recent: { offset: number; bytes: Uint8Array } = { offset: 0, bytes: new Uint8Array() };

  constructor(
    private readonly name: string,
    private readonly file: ByteFile,
    private readonly cache: BlockCache,
    private readonly sizes: BlockSizes,
  ) {}

  get size(): number {
    return this.file.size;
  }

  /** The spans packed, up to where the file ends. Not to be changed: it may be
   * a part of what is kept. */
  read(spans: readonly Span[]): Uint8Array {
    const [only] = spans;
    const near = only && spans.length === 1 ? this.near(only) : undefined;
    return near ?? this.gather(spans);
  }

  /** A span within the block that was read last, as most of them are where
   * records are read in turn. */
  private near({ offset, length }: Span): Uint8Array | undefined {
    const { recent } = this;
    const start = offset - recent.offset;
    const isWithin = start >= 0 && start + length <= recent.bytes.length;
    return isWithin ? recent.bytes.subarray(start, start + length) : undefined;
  }

  private gather(spans: readonly Span[]): Uint8Array {
    const parts = clip(spans, this.file.size);
    const packed = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    const blocks = this.blocks(blocksOf(parts, this.sizes.block));
    let filled = 0;
    for (const part of parts) {
      this.copy(part, blocks, packed.subarray(filled, filled + part.length));
      filled += part.length;
    }
    return packed;
  }

  private copy({ offset, length }: Span, blocks: Map<number, Uint8Array>, target: Uint8Array): void {
    let filled = 0;
    while (filled < length) {
      const at = offset + filled;
      const number = Math.floor(at / this.sizes.block);
      const start = at - number * this.sizes.block;
      const block = blocks.get(number);
      const bytes = block?.subarray(start, start + length - filled);
      // A file that was cut since its size was told has no such block.
      if (!block || !bytes || bytes.length === 0) throw { tag: 'io' };
      this.recent = { offset: number * this.sizes.block, bytes: block };
      target.set(bytes, filled);
      filled += bytes.length;
    }
  }

  /** Those blocks, kept ones and new ones. */
  private blocks(numbers: number[]): Map<number, Uint8Array> {
    const found = new Map<number, Uint8Array>();
    const missing: number[] = [];
    for (const number of numbers) {
      const block = this.cache.get(this.key(number));
      if (block) found.set(number, block);
      else missing.push(number);
    }
    if (missing.length === 0) return found;
    const longest = Math.max(1, Math.floor(RUN_BYTES / this.sizes.block));
    const runs = runsOf(missing, this.sizes.gap, longest);
    const ahead = this.widen(runs);
    this.file.fetch(
      runs.map((run) => this.spanOf(run)),
      (reads) => {
        this.ahead = ahead;
        const last = runs.at(-1);
        if (last) this.next = last.first + last.count;
        runs.forEach((run, position) => this.keep(run, reads[position], found));
      },
    );
    return found;
  }

  private keep(run: Run, bytes: Uint8Array = new Uint8Array(), found: Map<number, Uint8Array>): void {
    for (let block = 0; block < run.count; block += 1) {
      const start = block * this.sizes.block;
      // A copy, so that one block does not keep all that was read with it.
      const copy = bytes.slice(start, start + this.sizes.block);
      found.set(run.first + block, copy);
      this.cache.set(this.key(run.first + block), copy);
    }
  }

  /** Whoever reads in order reads on: the next read is twice as long. Returns
   * by how much it was widened. */
  private widen(runs: Run[]): number {
    const [first, last] = [runs[0], runs.at(-1)];
    if (!first || !last) return 0;
    const goesOn = runs.length === 1 && first.first === this.next;
    const ahead = goesOn ? Math.min(Math.max(1, 2 * this.ahead), this.sizes.ahead) : 0;
    const blocks = Math.ceil(this.file.size / this.sizes.block);
    last.count = Math.min(last.count + ahead, blocks - last.first);
    return ahead;
  }

  private spanOf({ first, count }: Run): Span {
    const offset = first * this.sizes.block;
    return { offset, length: Math.min(count * this.sizes.block, this.file.size - offset) };
  }

  private key(number: number): string {
    return `${this.name}:${number}`;
  }
}
