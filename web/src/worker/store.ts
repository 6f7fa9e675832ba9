// An open store, in the page's terms: numbers for 64-bit integers, and as much
// of a damaged one as can be told.

import { hex } from '../data/format.ts';
import { add, NOTHING } from '../data/summary.ts';
import { indicesOf, toBigInts, toNumber, toNumbers } from '../data/numbers.ts';
import type { Calls, Opened, RecordBytes, RecordOrError, RowOrError, Schema, Summary } from '../protocol.ts';
import type { Root } from '../../generated/reader.js';
import type { Store as GuestStore } from '../../generated/interfaces/zrecord-store-store.js';
import type { Directory } from './files.ts';
import { failureOf, isFileError } from './failure.ts';

/** Of a record that is too long to be shown whole. */
const PREFIX_BYTES = 1n << 20n;
/** A sample is so many runs of so many records. */
const SAMPLE_RUNS = 16;
const SAMPLE_RUN = 64;
/** So many ranges of a damaged table are counted in one call. */
const SUMMARIES_MAX = 256;
/** The damage of this many records is looked for one by one. */
const ROWS_MAX = 1024;

type StoreCalls = Omit<Calls, 'open'>;

export class Store implements StoreCalls {
  private constructor(
    private readonly root: Root,
    private readonly guest: GuestStore,
    private readonly files: Directory,
    private readonly length: number,
    private readonly dictionaries: number,
  ) {}

  /** Opens a store, or what can be believed of one that is damaged. */
  static open(root: Root, files: Directory): { store: Store; opened: Opened } {
    const { Store: Guest } = root.store;
    // Each call owns the directory that it is handed.
    const directory = () => files.again() as never;
    const troubles: string[] = [];
    let guest: GuestStore;
    try {
      guest = Guest.open(directory(), true);
    } catch (error) {
      const failure = failureOf(error);
      if (failure.kind !== 'corrupt') throw error;
      troubles.push(failure.text);
      guest = Guest.salvage(directory(), true);
    }
    const opened = describe(guest, troubles);
    return { store: new Store(root, guest, files, opened.length, opened.dictionaries), opened };
  }

  rows(first: number, count: number): RowOrError[] {
    const inside = Math.max(0, Math.min(count, this.length - first, ROWS_MAX));
    if (inside === 0) return [];
    try {
      return this.rowsOf(first, inside);
    } catch (error) {
      const failure = failureOf(error);
      if (failure.fatal) throw error;
      if (inside === 1) return [{ error: failure.text }];
      // One bad entry is no reason to hide the others.
      const half = inside >> 1;
      return [...this.rows(first, half), ...this.rows(first + half, inside - half)];
    }
  }

  private rowsOf(first: number, count: number): RowOrError[] {
    const found = this.guest.locations(indicesOf(first, count));
    const { chunks, offsets, storedLens, lens, codecs, dictionaries, checksums } = found;
    return Array.from(chunks, (chunk, position) => ({
      chunk,
      offset: toNumber(offsets[position] ?? 0n),
      storedLen: storedLens[position] ?? 0,
      len: lens[position] ?? 0,
      codec: codecs[position] ?? 'raw',
      dictionary: dictionaries[position] ?? 0,
      ...(checksums && { checksum: checksums[position] ?? 0 }),
    }));
  }

  summarise(first: number, count: number): Summary {
    let sum = NOTHING;
    // What is to be counted, what comes next last.
    const ranges = [{ first, count: Math.max(0, Math.min(count, this.length - first)) }];
    for (let calls = 0; calls < SUMMARIES_MAX; calls += 1) {
      const range = ranges.pop();
      if (!range) break;
      try {
        sum = add(sum, this.summaryOf(range.first, range.count));
      } catch (error) {
        if (failureOf(error).kind !== 'corrupt') throw error;
        // One bad entry is no reason not to count the others.
        const half = range.count >> 1;
        if (half === 0) sum = add(sum, { ...NOTHING, damaged: 1 });
        else {
          ranges.push({ first: range.first + half, count: range.count - half });
          ranges.push({ first: range.first, count: half });
        }
      }
    }
    return sum;
  }

  private summaryOf(first: number, count: number): Summary {
    const sum = this.guest.summarise(BigInt(first), BigInt(count));
    return {
      records: toNumber(sum.records),
      damaged: 0,
      storedBytes: toNumber(sum.storedBytes),
      plainBytes: toNumber(sum.plainBytes),
      codecs: toNumbers(sum.codecs),
      lens: toNumbers(sum.lens),
      ratios: toNumbers(sum.ratios),
    };
  }

  sample(): Summary {
    if (this.length <= SAMPLE_RUNS * SAMPLE_RUN) return this.summarise(0, this.length);
    const step = (this.length - SAMPLE_RUN) / (SAMPLE_RUNS - 1);
    const runs = Array.from({ length: SAMPLE_RUNS }, (_, run) =>
      this.summarise(Math.floor(run * step), SAMPLE_RUN),
    );
    return runs.reduce(add);
  }

  usage() {
    const { chunks, chunkBytes, reclaimableBytes } = this.guest.usage();
    return {
      chunks: toNumber(chunks),
      chunkBytes: toNumber(chunkBytes),
      reclaimableBytes: toNumber(reclaimableBytes),
      dictionaryBytes: this.dictionaryBytes(),
      leftovers: this.guest.leftovers(),
    };
  }

  /** Those that are missing are told where they are needed. */
  private dictionaryBytes(): number {
    let sum = 0;
    for (let number = 0; number < this.dictionaries; number += 1) {
      try {
        const file = this.files.open(number === 0 ? 'dict.zr' : `dict.${number}.zr`);
        sum += toNumber(file.size());
      } catch (error) {
        if (!isFileError(error)) throw error;
      }
    }
    return sum;
  }

  record(index: number, wholeMax: number): RecordBytes {
    const length = this.guest.lengths(indicesOf(index, 1))[0] ?? 0;
    if (length <= wholeMax) {
      const { bytes } = this.guest.gather(indicesOf(index, 1), BigInt(wholeMax));
      return { bytes: owned(bytes), length, isChecked: true };
    }
    const bytes = owned(this.guest.readPrefix(BigInt(index), PREFIX_BYTES));
    return { bytes, length, isChecked: false };
  }

  records(indices: number[], wholeMax: number): RecordOrError[] {
    return indices.map((index) => {
      try {
        return this.record(index, wholeMax);
      } catch (error) {
        const failure = failureOf(error);
        if (failure.fatal) throw error;
        return { error: failure.text };
      }
    });
  }

  gather(indices: number[], bytesMax: number) {
    const { bytes, ends } = this.guest.gather(toBigInts(indices), BigInt(bytesMax));
    return { bytes: owned(bytes), ends: toNumbers(ends) };
  }

  verify(first: number, count: number) {
    return this.guest.verify(BigInt(first), BigInt(count)).map(faultOf);
  }

  verifyStructure() {
    return this.guest.verifyStructure().map(faultOf);
  }

  batches(...[options, firstStep, count]: Parameters<Calls['batches']>) {
    const { length, batchSize, mode, seed, rank, worldSize } = options;
    const sampler = this.root.sampler.Sampler.create({
      length: BigInt(length),
      batchSize: BigInt(batchSize),
      mode,
      seed,
      rank: BigInt(rank),
      worldSize: BigInt(worldSize),
    });
    try {
      const indices = toNumbers(sampler.batches(BigInt(firstStep), BigInt(count)));
      const perCycle = sampler.batchesPerCycle();
      return { indices, ...(perCycle !== undefined && { batchesPerCycle: toNumber(perCycle) }) };
    } finally {
      const dispose = Symbol.dispose ?? Symbol.for('dispose');
      (sampler as unknown as Record<symbol, () => void>)[dispose]?.();
    }
  }
}

/** Bytes in a buffer of their own, which can be handed over. */
function owned(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const isWhole = bytes.byteLength === bytes.buffer.byteLength;
  return isWhole && bytes.buffer instanceof ArrayBuffer
    ? (bytes as Uint8Array<ArrayBuffer>)
    : new Uint8Array(bytes);
}

function faultOf(fault: { file: string; offset?: bigint; index?: bigint; reason: string }) {
  const { file, offset, index, reason } = fault;
  return {
    file,
    reason,
    ...(offset !== undefined && { offset: toNumber(offset) }),
    ...(index !== undefined && { index: toNumber(index) }),
  };
}

function describe(guest: GuestStore, troubles: string[]): Opened {
  const info = guest.info();
  const schema = schemaOf(guest, troubles);
  const present = guest.entriesPresent();
  if (present < info.length) {
    troubles.push(`The header counts ${info.length} records, the table was cut after ${present}.`);
  }
  return {
    format: info.format,
    version: info.version,
    ...(info.id && { id: hex(info.id) }),
    length: toNumber(present < info.length ? present : info.length),
    isClean: info.durableLength === info.length,
    generation: toNumber(info.generation),
    stride: info.stride,
    storedBytes: toNumber(info.storedBytes),
    plainBytes: toNumber(info.plainBytes),
    dictionaries: info.dictionaries,
    ...(schema && { schema }),
    troubles,
  };
}

/** A store without a readable schema is shown as one without any. */
function schemaOf(guest: GuestStore, troubles: string[]): Schema | undefined {
  try {
    const schema = guest.schema();
    if (!schema) return undefined;
    const { kind, dtype, codec, metadata } = schema;
    const itemShape = toNumbers(schema.itemShape);
    return { kind, dtype, itemShape, codec, rowBytes: toNumber(schema.rowBytes), metadata };
  } catch (error) {
    const failure = failureOf(error);
    if (failure.fatal) throw error;
    troubles.push(`The schema cannot be read, so records are shown as bytes. ${failure.text}`);
    return undefined;
  }
}
