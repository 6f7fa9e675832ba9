// Looks into a store through the component, in Node 20 or newer.
//
//     npm ci
//     npm run transpile
//     node reader.js STORE [INDEX ...]
//
// `cargo xtask component` builds the component, and the second command makes
// JavaScript and plain modules of it, in `generated`. Printed are JSON objects,
// one a line: what the store is, its faults, and the length and SHA-256 of each
// record asked for, or of a batch that the sampler draws. Anything wrong with
// the store makes the exit status 1.
//
// Nothing stops a component here that takes too long: for a store that need not
// be trusted at all, run this in a `Worker` and end that.

import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

import * as files from './files.js';
import { instantiate } from './generated/reader.js';

// Records that one call checks: so that each is short.
const SLICE = 4096n;
const BATCH_BYTES_MAX = 64n << 20n;

const dispose = Symbol.dispose ?? Symbol.for('dispose');

/** The component, which can reach nothing but `files`. */
function load() {
  const module = (name) =>
    new WebAssembly.Module(readFileSync(new URL(`generated/${name}`, import.meta.url)));
  // The generated code looks for the name without the version, its types say
  // the one with.
  return instantiate(module, {
    'zrecord:store/files': files,
    'zrecord:store/files@0.1.0': files,
  });
}

/** Prints a JSON object; JSON has no integers of 64 bits. */
function show(values) {
  const plain = (_, value) => {
    if (typeof value !== 'bigint') return value;
    return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
  };
  console.log(JSON.stringify(values, plain));
}

function showInfo(store) {
  const { format, version, id, length } = store.info();
  const schema = store.schema();
  show({
    format,
    version,
    id: id ? Buffer.from(id).toString('hex') : null,
    records: length,
    schema: schema
      ? {
          kind: schema.kind,
          dtype: schema.dtype,
          'item-shape': Array.from(schema.itemShape),
          codec: schema.codec,
        }
      : null,
  });
  return length;
}

function showFaults(store, length) {
  const faults = store.verifyStructure();
  for (let first = 0n; first < length; first += SLICE) {
    faults.push(...store.verify(first, SLICE));
  }
  const complete = ({ file, offset = null, index = null, reason }) =>
    ({ file, offset, index, reason });
  show({ faults: faults.map(complete) });
  return faults.length;
}

/** The first batch of a random order. */
function draw({ Sampler }, length) {
  if (length === 0n) return new BigUint64Array();
  const batchSize = length < 8n ? length : 8n;
  const sampler = Sampler.create({
    length, batchSize, mode: 'cyclic', seed: 42n, rank: 0n, worldSize: 1n,
  });
  try {
    return sampler.batches(0n, 1n);
  } finally {
    sampler[dispose]();
  }
}

function showRecords(store, indices) {
  while (indices.length > 0) {
    // As many of them as fit, at least one.
    const { bytes, ends } = store.gather(indices, BATCH_BYTES_MAX);
    let start = 0;
    ends.forEach((end, position) => {
      const record = bytes.subarray(start, Number(end));
      const sha256 = createHash('sha256').update(record).digest('hex');
      show({ index: indices[position], len: record.length, sha256 });
      start = Number(end);
    });
    indices = indices.subarray(ends.length);
  }
}

/** An error in words: its kind, and all that it says. */
function describe({ tag, val }) {
  if (val === undefined || val === null) return tag;
  if (typeof val !== 'object') return `${tag}: ${val}`;
  if (val.tag) return `${tag}: ${describe(val)}`;
  const parts = Object.entries(val)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name} ${value?.tag ? describe(value) : value}`);
  return `${tag}: ${parts.join(', ')}`;
}

function main([folder, ...indices]) {
  if (!folder || !indices.every((index) => /^\d+$/.test(index))) {
    console.error('usage: node reader.js STORE [INDEX ...]');
    return 2;
  }
  const { store: { Store }, sampler } = load();
  let store;
  try {
    // Nobody is writing to it: what a writer left unfinished is passed over.
    store = Store.open(new files.Directory(folder), true);
    const length = showInfo(store);
    const faults = showFaults(store, length);
    const asked = indices.length > 0 ? BigUint64Array.from(indices, BigInt) : draw(sampler, length);
    showRecords(store, asked);
    return faults === 0 ? 0 : 1;
  } catch (error) {
    // What the component returned; anything else is ours.
    if (error.payload === undefined) throw error;
    console.error(`${folder}: ${describe(error.payload)}`);
    return 1;
  } finally {
    store?.[dispose]();
  }
}

process.exitCode = main(process.argv.slice(2));
