// The small floating-point types of `ml_dtypes`, and halves: each a sign, an
// exponent and a mantissa, read from the low bits of an integer.

/** What the largest bit patterns mean:
 *  - `ieee`: infinities and NaNs, as in a double;
 *  - `fn`: no infinities, NaN where all bits are ones;
 *  - `fnuz`: no infinities, one zero, and NaN in place of the negative one;
 *  - `finite`: numbers all the way. */
type Ends = 'ieee' | 'fn' | 'fnuz' | 'finite';

export interface Minifloat {
  exponentBits: number;
  mantissaBits: number;
  bias: number;
  ends: Ends;
}

const small = (exponentBits: number, mantissaBits: number, bias: number, ends: Ends): Minifloat => ({
  exponentBits,
  mantissaBits,
  bias,
  ends,
});

export const HALF = small(5, 10, 15, 'ieee');
export const BFLOAT16 = small(8, 7, 127, 'ieee');

/** Those of one byte, by name. */
export const MINIFLOATS: Readonly<Record<string, Minifloat>> = {
  float4_e2m1fn: small(2, 1, 1, 'finite'),
  float6_e2m3fn: small(2, 3, 1, 'finite'),
  float6_e3m2fn: small(3, 2, 3, 'finite'),
  float8_e3m4: small(3, 4, 3, 'ieee'),
  float8_e4m3: small(4, 3, 7, 'ieee'),
  float8_e4m3b11fnuz: small(4, 3, 11, 'fnuz'),
  float8_e4m3fn: small(4, 3, 7, 'fn'),
  float8_e4m3fnuz: small(4, 3, 8, 'fnuz'),
  float8_e5m2: small(5, 2, 15, 'ieee'),
  float8_e5m2fnuz: small(5, 2, 16, 'fnuz'),
};

export function decodeMinifloat(bits: number, type: Minifloat): number {
  const { exponentBits, mantissaBits, bias, ends } = type;
  const exponentMax = (1 << exponentBits) - 1;
  const mantissaMax = (1 << mantissaBits) - 1;
  const mantissa = bits & mantissaMax;
  const exponent = (bits >> mantissaBits) & exponentMax;
  const isNegative = ((bits >> (mantissaBits + exponentBits)) & 1) === 1;
  const sign = isNegative ? -1 : 1;
  if (ends === 'fnuz' && isNegative && exponent === 0 && mantissa === 0) return NaN;
  if (exponent === exponentMax) {
    if (ends === 'ieee') return mantissa === 0 ? sign * Infinity : NaN;
    if (ends === 'fn' && mantissa === mantissaMax) return NaN;
  }
  const fraction = mantissa / (mantissaMax + 1);
  if (exponent === 0) return sign * fraction * 2 ** (1 - bias);
  return sign * (1 + fraction) * 2 ** (exponent - bias);
}
