// The interface `files` of `zrecord:store`, served from folders.
//
// All that the component can reach goes through here: a name is one of a
// store's before anything is looked for, and what is opened is a regular file
// of the folder that was lent. An error of the contract is thrown, as jco has
// it: `{ tag: 'no-entry' }`.

import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';

// What one call copies at most.
const CALL_BYTES_MAX = 64n << 20n;
// The file names of the contract, but for those of a store that is written to.
const NAMES = new Set(['meta.zr', 'schema.msgpack', 'dict.zr']);
for (let number = 1; number < 256; number += 1) NAMES.add(`dict.${number}.zr`);
const CHUNK = /^(0|[1-9][0-9]{0,9})\.zr$/;
const TAGS = {
  ENOENT: 'no-entry',
  EACCES: 'access',
  EPERM: 'access',
  ELOOP: 'not-a-file',
  EISDIR: 'not-a-file',
};
// No link is followed, and a pipe does not block. Windows has neither flag.
const FLAGS = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

const dispose = Symbol.dispose ?? Symbol.for('dispose');

/** Runs a call of the system; what it throws is told in the contract's words. */
function told(call) {
  try {
    return call();
  } catch (error) {
    const tag = TAGS[error.code];
    throw tag ? { tag } : { tag: 'other', val: String(error.message) };
  }
}

/** Room for so many bytes, if one call may have them. */
function room(length) {
  if (length > CALL_BYTES_MAX) throw { tag: 'too-large' };
  return new Uint8Array(Number(length));
}

export class Directory {
  #folder;

  constructor(folder) {
    this.#folder = folder;
  }

  open(name) {
    if (!NAMES.has(name) && !CHUNK.test(name)) throw { tag: 'invalid' };
    const descriptor = told(() => openSync(join(this.#folder, name), FLAGS));
    if (fstatSync(descriptor).isFile()) return new File(descriptor);
    closeSync(descriptor);
    throw { tag: 'not-a-file' };
  }
}

export class File {
  #descriptor;

  constructor(descriptor) {
    this.#descriptor = descriptor;
  }

  size() {
    return told(() => fstatSync(this.#descriptor, { bigint: true }).size);
  }

  read(length, offset) {
    const bytes = room(length);
    const read = this.#fill(bytes, offset);
    return [bytes.subarray(0, read), read < bytes.length];
  }

  readMany(spans) {
    const packed = room(spans.reduce((sum, span) => sum + span.length, 0n));
    let filled = 0;
    for (const { length, offset } of spans) {
      const part = packed.subarray(filled, filled + Number(length));
      const read = this.#fill(part, offset);
      filled += read;
      if (read < part.length) break;
    }
    return packed.subarray(0, filled);
  }

  /** Reads until `bytes` are full or the file ends; returns how many it were. */
  #fill(bytes, offset) {
    let filled = 0;
    // No file reaches as far as an offset may say.
    while (filled < bytes.length && offset < 1n << 62n) {
      const read = told(() =>
        readSync(this.#descriptor, bytes, filled, bytes.length - filled, offset),
      );
      if (read === 0) break;
      filled += read;
      offset += BigInt(read);
    }
    return filled;
  }

  /** Called by the component's side when it lets go of the file. */
  [dispose]() {
    closeSync(this.#descriptor);
  }
}
