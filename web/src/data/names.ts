// The names that files of a store have, as the contract lists them.

const FIXED = new Set(['meta.zr', 'schema.msgpack', 'dict.zr']);
for (let number = 1; number < 256; number += 1) FIXED.add(`dict.${number}.zr`);
const CHUNK = /^(0|[1-9][0-9]{0,9})\.zr$/;

/** Also those that a writer has not yet renamed: they tell of a cut operation. */
export function isStoreName(name: string): boolean {
  const isNew = name.endsWith('.new');
  return FIXED.has(isNew ? name.slice(0, -'.new'.length) : name) || CHUNK.test(name);
}
