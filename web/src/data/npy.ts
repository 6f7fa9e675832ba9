// The head of a `.npy` file, as NumPy's format 1.0 and 2.0 describe it.

/** NumPy has no name for the types of `ml_dtypes` and writes their bytes. */
function descr(dtype: string, bytes: number): string {
  if (dtype.startsWith('[')) return dtype;
  return /^[<>|=]/.test(dtype) ? `'${dtype}'` : `'|V${bytes}'`;
}

/** `dtype` as a schema has it; `itemBytes` is the size of one value. */
export function npyHead(dtype: string, itemBytes: number, shape: readonly number[]): Uint8Array {
  const sizes = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(', ')})`;
  const text = `{'descr': ${descr(dtype, itemBytes)}, 'fortran_order': False, 'shape': ${sizes}, }`;
  const characters = new TextEncoder().encode(text);
  const isLong = characters.length + 65 > 0xffff;
  const prefix = isLong ? 12 : 10;
  // What follows begins at a multiple of 64; the head ends in a line feed.
  const total = Math.ceil((prefix + characters.length + 1) / 64) * 64;
  const head = new Uint8Array(total).fill(0x20);
  head.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, isLong ? 2 : 1, 0]);
  const view = new DataView(head.buffer);
  if (isLong) view.setUint32(8, total - prefix, true);
  else view.setUint16(8, total - prefix, true);
  head.set(characters, prefix);
  head[total - 1] = 0x0a;
  return head;
}
