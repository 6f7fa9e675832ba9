// The interface `files` of `zrecord:store`: all that the component can reach.
// Names are checked before anything is looked for, and an error of the contract
// is thrown, as jco has it: `{ tag: 'no-entry' }`.

import { toNumber } from '../data/numbers.ts';
import { isStoreName } from '../data/names.ts';
import { BlockFile, type BlockCache, type BlockSizes, type ByteFile } from './blocks.ts';

/** Where files come from. */
export interface FileSource {
  readonly sizes: BlockSizes;
  open(name: string): ByteFile;
  /** Reads what the last call found missing; false when that was nothing. Where
   * it is absent everything is there at once. */
  load?(): Promise<boolean>;
}

/** What one call copies at most. */
const CALL_BYTES_MAX = 64n << 20n;

interface Span64 {
  offset: bigint;
  length: bigint;
}

export class Directory {
  constructor(
    private readonly source: FileSource,
    private readonly cache: BlockCache,
  ) {}

  /** Another one of the same files: the component drops what it was lent. */
  again(): Directory {
    return new Directory(this.source, this.cache);
  }

  open(name: string): File {
    if (!isStoreName(name)) throw { tag: 'invalid' };
    return new File(new BlockFile(name, this.source.open(name), this.cache, this.source.sizes));
  }
}

export class File {
  constructor(private readonly file: BlockFile) {}

  size(): bigint {
    return BigInt(this.file.size);
  }

  read(length: bigint, offset: bigint): [Uint8Array, boolean] {
    const bytes = this.readMany([{ offset, length }]);
    return [bytes, bytes.length < length];
  }

  readMany(spans: Span64[]): Uint8Array {
    const sum = spans.reduce((total, { length }) => total + length, 0n);
    if (sum > CALL_BYTES_MAX) throw { tag: 'too-large' };
    // No file reaches as far as an offset may say.
    const end = BigInt(this.file.size);
    return this.file.read(
      spans.map(({ offset, length }) => ({
        offset: toNumber(offset < end ? offset : end),
        length: toNumber(length),
      })),
    );
  }
}
