// How evenly drawn indices cover a store.

export interface Coverage {
  /** How many indices were drawn, and how many different ones. */
  drawn: number;
  distinct: number;
  /** How many fall into each of the equal parts of the store. */
  parts: number[];
  /** How many each part would have if all had the same. */
  even: number;
}

export function coverage(indices: readonly number[], length: number, partsMax = 64): Coverage {
  const parts = new Array<number>(Math.max(1, Math.min(partsMax, length))).fill(0);
  for (const index of indices) {
    const part = Math.min(parts.length - 1, Math.floor((index / length) * parts.length));
    parts[part] = (parts[part] ?? 0) + 1;
  }
  const distinct = new Set(indices).size;
  return { drawn: indices.length, distinct, parts, even: indices.length / parts.length };
}
