// What a record can be shown as.

import { isReal, parseDtype, type Dtype } from './dtype.ts';
import { imageHead, type ImageHead } from './image_head.ts';
import { pictureLayout, type PictureLayout } from './picture.ts';

export interface RecordType {
  /** None for an untyped store. */
  schema?: { kind: 'dense' | 'ragged'; dtype: string; itemShape: number[]; rowBytes: number };
}

export type View = 'picture' | 'image' | 'text' | 'waveform' | 'tokens' | 'numbers' | 'hex';

export interface Content {
  dtype: Dtype;
  /** Of the whole record, rows of a ragged one first. */
  shape: number[];
  /** What it can be shown as, the best first; always hex. */
  views: View[];
  layout?: PictureLayout;
  image?: ImageHead;
}

const BYTES: Dtype = {
  text: '|u1',
  name: 'bytes',
  size: 1,
  kind: 'uint',
  read: (view, at) => view.getUint8(at),
};

/** Fewer values than this are read faster as numbers than as a curve. */
const WAVEFORM_MIN = 128;

/** `bytes` may be the beginning of a record of `length` bytes. */
export function contentOf(type: RecordType, bytes: Uint8Array, length: number): Content {
  const { schema } = type;
  const dtype = (schema && parseDtype(schema.dtype)) || BYTES;
  const shape = schema && dtype !== BYTES ? shapeOf(schema, dtype, length) : [length];
  const image = isByteList(dtype, shape) ? imageHead(bytes) : undefined;
  const layout = isReal(dtype) ? pictureLayout(shape) : undefined;
  const views = viewsOf(dtype, shape, bytes, length, image, layout);
  return { dtype, shape, views, ...(layout && { layout }), ...(image && { image }) };
}

function shapeOf(schema: NonNullable<RecordType['schema']>, dtype: Dtype, length: number): number[] {
  if (schema.kind === 'dense') return schema.itemShape;
  const rows = schema.rowBytes > 0 ? Math.floor(length / schema.rowBytes) : 0;
  return schema.rowBytes > 0 || dtype.size > 0 ? [rows, ...schema.itemShape] : [0];
}

function isByteList(dtype: Dtype, shape: readonly number[]): boolean {
  return dtype.size === 1 && (dtype.kind === 'uint' || dtype.kind === 'void') && shape.length <= 1;
}

function viewsOf(
  dtype: Dtype,
  shape: readonly number[],
  bytes: Uint8Array,
  length: number,
  image: ImageHead | undefined,
  layout: PictureLayout | undefined,
): View[] {
  const views: View[] = [];
  const isList = shape.length === 1 && (shape[0] ?? 0) > 1;
  const isInteger = dtype.kind === 'int' || dtype.kind === 'uint';
  const isWave = isReal(dtype) && isList && (shape[0] ?? 0) >= WAVEFORM_MIN;
  if (image) views.push('image');
  if (layout) views.push('picture');
  if (isByteList(dtype, shape) && !image && isText(bytes, length)) views.push('text');
  // Samples of sound are signed, numbers of tokens are not negative.
  const areTokens = isInteger && isList && dtype.size > 1 && !hasNegative(bytes, dtype);
  if (isWave && !areTokens) views.push('waveform');
  if (areTokens) views.push('tokens');
  if (isWave && areTokens) views.push('waveform');
  if (dtype.size > 0) views.push('numbers');
  views.push('hex');
  return views;
}

/** How much is looked at to tell what something is. */
const LOOK_BYTES = 4096;

function hasNegative(bytes: Uint8Array, dtype: Dtype): boolean {
  if (dtype.kind !== 'int') return false;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = Math.min(bytes.length, LOOK_BYTES) - dtype.size;
  for (let at = 0; at <= end; at += dtype.size) {
    if (Number(dtype.read(view, at)) < 0) return true;
  }
  return false;
}

/** UTF-8 without control characters, other than those of plain text. */
export function isText(bytes: Uint8Array, length: number): boolean {
  if (bytes.length === 0) return false;
  const looked = bytes.subarray(0, LOOK_BYTES);
  for (const byte of looked) {
    if (byte < 0x20 && ![0x09, 0x0a, 0x0c, 0x0d, 0x1b].includes(byte)) return false;
  }
  try {
    // What was cut may end within a character.
    new TextDecoder('utf-8', { fatal: true }).decode(looked, { stream: looked.length < length });
    return true;
  } catch {
    return false;
  }
}
