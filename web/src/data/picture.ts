// Tensors as pictures: which shapes are some, and how values become pixels.

import { isReal, type Dtype } from './dtype.ts';
import { value as shown } from './format.ts';

export interface PictureLayout {
  height: number;
  width: number;
  /** 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA. */
  channels: number;
  order: 'HW' | 'HWC' | 'CHW';
}

/** Smaller than this is a row of numbers rather than a picture. */
const SIDE_MIN = 4;
const SIDE_MAX = 16_384;
const PIXELS_MAX = 64_000_000;

/** None for a shape that is no picture. Channels come last, unless only the
 * first size can be their number. */
export function pictureLayout(shape: readonly number[]): PictureLayout | undefined {
  const sizes = shape.length === 4 && shape[0] === 1 ? shape.slice(1) : shape;
  const [first = 0, second = 0, third = 0] = sizes;
  const layouts: PictureLayout[] = [];
  if (sizes.length === 2) layouts.push({ height: first, width: second, channels: 1, order: 'HW' });
  if (sizes.length === 3) {
    layouts.push({ height: first, width: second, channels: third, order: 'HWC' });
    layouts.push({ height: second, width: third, channels: first, order: 'CHW' });
  }
  return layouts.find(isPicture);
}

function isPicture({ height, width, channels }: PictureLayout): boolean {
  const sides = [height, width];
  const fits = sides.every((side) => side >= SIDE_MIN && side <= SIDE_MAX);
  const isBand = Math.max(...sides) > 64 * Math.min(...sides);
  return fits && !isBand && channels >= 1 && channels <= 4 && height * width <= PIXELS_MAX;
}

/** The values that become black and white. */
export interface Normalisation {
  low: number;
  high: number;
  text: string;
}

/** One for the whole picture: its channels keep their proportions. */
export function normalisation(dtype: Dtype, low: number, high: number): Normalisation {
  if (dtype.kind === 'bool') return { low: 0, high: 1, text: 'false is black, true is white' };
  if (dtype.kind === 'uint' && dtype.size === 1 && /u1$/.test(dtype.text)) {
    return { low: 0, high: 255, text: 'values as they are, 0 to 255' };
  }
  if (dtype.kind === 'float' && low >= 0 && high <= 1) {
    return { low: 0, high: 1, text: '0 is black, 1 is white' };
  }
  if (dtype.kind === 'float' && low >= -1 && low < 0 && high <= 1) {
    return { low: -1, high: 1, text: '−1 is black, 1 is white' };
  }
  if (dtype.kind === 'float' && low >= 0 && high > 1 && high <= 255) {
    return { low: 0, high: 255, text: '0 is black, 255 is white' };
  }
  return { low, high, text: `${shown(low)} (lowest) is black, ${shown(high)} (highest) is white` };
}

export interface Picture {
  width: number;
  height: number;
  /** RGBA. */
  pixels: Uint8ClampedArray<ArrayBuffer>;
  normalisation: Normalisation;
}

export type Numbers = Float64Array | Uint8Array;

/** The values of a record as numbers; those of 64 bits lose their last bits.
 * Bytes are their own numbers, of which there may be many. */
export function numbersOf(bytes: Uint8Array, dtype: Dtype, countMax = Infinity): Numbers {
  if (dtype.text === '|u1') return bytes.subarray(0, Math.min(bytes.length, countMax));
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const count = dtype.size === 0 ? 0 : Math.min(Math.floor(bytes.length / dtype.size), countMax);
  const numbers = new Float64Array(count);
  for (let position = 0; position < count; position += 1) {
    numbers[position] = Number(dtype.read(view, position * dtype.size));
  }
  return numbers;
}

/** Lowest and highest of the finite values. */
export function extent(numbers: Numbers): [low: number, high: number] {
  let [low, high] = [Infinity, -Infinity];
  for (const number of numbers) {
    if (!Number.isFinite(number)) continue;
    if (number < low) low = number;
    if (number > high) high = number;
  }
  return low <= high ? [low, high] : [0, 0];
}

export function pictureOf(bytes: Uint8Array, dtype: Dtype, layout: PictureLayout): Picture | undefined {
  const { height, width, channels, order } = layout;
  if (!isReal(dtype) || bytes.length < height * width * channels * dtype.size) return undefined;
  const numbers = numbersOf(bytes, dtype, height * width * channels);
  const { low, high, text } = normalisation(dtype, ...extent(numbers));
  const scale = high > low ? 255 / (high - low) : 0;
  const pixels = new Uint8ClampedArray(4 * height * width);
  const plane = height * width;
  const at =
    order === 'CHW'
      ? (pixel: number, channel: number) => channel * plane + pixel
      : (pixel: number, channel: number) => pixel * channels + channel;
  const hasAlpha = channels === 2 || channels === 4;
  for (let pixel = 0; pixel < plane; pixel += 1) {
    // NaN is clamped to 0, and what is infinite to an end.
    const level = (channel: number) => ((numbers[at(pixel, channel)] ?? 0) - low) * scale;
    for (let colour = 0; colour < 3; colour += 1) {
      pixels[4 * pixel + colour] = level(channels < 3 ? 0 : colour);
    }
    pixels[4 * pixel + 3] = hasAlpha ? level(channels - 1) : 255;
  }
  return { width, height, pixels, normalisation: { low, high, text } };
}
