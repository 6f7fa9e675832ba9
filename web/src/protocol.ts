// What the page asks of the worker, and what it answers. Every call is short: a
// long job is a loop on the page over slices, so that it can show how far it
// is, stop, and let other calls in between.

/** Where the files of a store are. */
export type Source =
  { kind: 'files'; name: string; files: Map<string, File> } | { kind: 'url'; name: string; base: string };

export type Codec = 'raw' | 'zstd' | 'zstd-dict';
export const CODECS: readonly Codec[] = ['raw', 'zstd', 'zstd-dict'];

export interface Schema {
  kind: 'dense' | 'ragged';
  dtype: string;
  itemShape: number[];
  codec: Codec;
  rowBytes: number;
  /** MessagePack, empty when there is none. */
  metadata: Uint8Array;
}

/** What a store is, by its header. */
export interface Opened {
  format: 'classic' | 'extended';
  version: number;
  id?: string;
  /** Of records that have an entry in the table. */
  length: number;
  /** Whether everything survives a loss of power. */
  isClean: boolean;
  generation: number;
  stride: number;
  /** Zero in a classic store, which has no sums. */
  storedBytes: number;
  plainBytes: number;
  dictionaries: number;
  schema?: Schema;
  /** What is wrong with a store that is shown all the same. */
  troubles: string[];
}

/** Entries of the record table, a record at each position. */
export interface Row {
  chunk: number;
  offset: number;
  storedLen: number;
  len: number;
  codec: Codec;
  dictionary: number;
  checksum?: number;
}
export type RowOrError = Row | { error: string };

/** Counts of records, as the contract has them. */
export interface Summary {
  records: number;
  /** Records whose entries cannot be: nothing else counts them. */
  damaged: number;
  storedBytes: number;
  plainBytes: number;
  codecs: number[];
  lens: number[];
  ratios: number[];
}

export interface Usage {
  chunks: number;
  chunkBytes: number;
  reclaimableBytes: number;
  /** What those dictionaries hold that are there. */
  dictionaryBytes: number;
  leftovers: string[];
}

export interface RecordBytes {
  bytes: Uint8Array<ArrayBuffer>;
  /** Of the whole record, of which `bytes` may be the beginning. */
  length: number;
  /** Whether its checksum was compared. */
  isChecked: boolean;
}
export type RecordOrError = RecordBytes | { error: string };

export interface Fault {
  file: string;
  offset?: number;
  index?: number;
  reason: string;
}

export interface SamplerOptions {
  length: number;
  batchSize: number;
  mode: 'sequential' | 'iid' | 'cyclic';
  seed: bigint;
  rank: number;
  worldSize: number;
}

export interface Batches {
  indices: number[];
  /** None where there are no cycles. */
  batchesPerCycle?: number;
}

/** The calls, by name. */
export interface Calls {
  open(source: Source): Opened;
  rows(first: number, count: number): RowOrError[];
  /** Of a damaged table perhaps fewer than were asked for, from the first on. */
  summarise(first: number, count: number): Summary;
  /** Counts of a sample that is spread over the store. */
  sample(): Summary;
  usage(): Usage;
  /** One record; of one longer than `wholeMax` the first bytes. */
  record(index: number, wholeMax: number): RecordBytes;
  records(indices: number[], wholeMax: number): RecordOrError[];
  /** Records one behind the other, as many as fit, at least one. */
  gather(indices: number[], bytesMax: number): { bytes: Uint8Array<ArrayBuffer>; ends: number[] };
  verify(first: number, count: number): Fault[];
  verifyStructure(): Fault[];
  batches(options: SamplerOptions, firstStep: number, count: number): Batches;
}

export type CallName = keyof Calls;

export interface Request<Name extends CallName = CallName> {
  id: number;
  name: Name;
  parameters: Parameters<Calls[Name]>;
}

/** Why a call failed. After a `fatal` one the worker is of no more use. */
export interface Failure {
  /** As the contract names it, or `page` for what this page says itself. */
  kind: string;
  text: string;
  fatal: boolean;
}

export type Answer = { id: number; value: unknown } | { id: number; failure: Failure };
