// The names that files of a store have, as the contract lists them.

const FIXED = new Set(['meta.zr', 'schema.msgpack', 'dict.zr']);
for (let number = 1; number < 256; number += 1) FIXED.add(`dict.${number}.zr`);
const CHUNK = /^(0|[1-9][0-9]{0,9})\.zr$/;

/** Files that are read; those that a writer has not yet renamed mean nothing. */
export function isReadName(name: string): boolean {
  return FIXED.has(name) || CHUNK.test(name);
}
