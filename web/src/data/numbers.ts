// The one place where the component's 64-bit integers become numbers.

/** A count, an index or a position, which a number holds exactly. */
export function toNumber(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new RangeError(`${value} is past what this page can count, 2^53 − 1`);
  }
  return Number(value);
}

export function toNumbers(values: ArrayLike<bigint>): number[] {
  return Array.from(values, toNumber);
}

export function toBigInts(values: ArrayLike<number>): BigUint64Array {
  return BigUint64Array.from(Array.from(values), (value) => BigInt(value));
}

/** The consecutive indices of a range. */
export function indicesOf(first: number, count: number): BigUint64Array {
  const start = BigInt(first);
  return BigUint64Array.from({ length: count }, (_, position) => start + BigInt(position));
}
