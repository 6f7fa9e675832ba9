// A record shown in one way: an element for each view that its content has.

import { isReal, type Dtype } from '../data/dtype.ts';
import { count, counted, shape as shapeText, value as shown } from '../data/format.ts';
import { PIXELS_MAX } from '../data/image_head.ts';
import { extent, numbersOf, pictureOf } from '../data/picture.ts';
import type { Content, View } from '../data/content.ts';
import { drawCurve, paint, paintImage } from './canvas.ts';
import { h, notice } from './dom.ts';
import { tensor } from './tensor.ts';

export const VIEW_NAMES: Readonly<Record<View, string>> = {
  picture: 'Picture',
  image: 'Image',
  text: 'Text',
  waveform: 'Waveform',
  tokens: 'Tokens',
  numbers: 'Numbers',
  hex: 'Hex',
};

const HEX_BYTES = 4096;
const TEXT_BYTES = 64 << 10;
const TOKENS = 4096;

export interface Shown {
  bytes: Uint8Array<ArrayBuffer>;
  /** Of the whole record. */
  length: number;
  content: Content;
}

export function viewOf(view: View, record: Shown): HTMLElement {
  switch (view) {
    case 'picture':
      return pictureView(record);
    case 'image':
      return imageView(record);
    case 'text':
      return textView(record);
    case 'waveform':
      return waveformView(record);
    case 'tokens':
      return tokensView(record);
    case 'numbers':
      return tensor(record);
    case 'hex':
      return hexView(record);
  }
}

function caption(text: string): HTMLElement {
  return h('figcaption', {}, text);
}

function pictureView({ bytes, content }: Shown): HTMLElement {
  const { dtype, layout } = content;
  const picture = layout && pictureOf(bytes, dtype, layout);
  if (!picture || !layout) return notice('Too little of this record was read to draw it.', 'note');
  const channels = ['', 'grey', 'grey and alpha', 'RGB', 'RGBA'][layout.channels] ?? '';
  const order = layout.order === 'HW' ? '' : `, ${layout.order}`;
  const text = `${picture.width} × ${picture.height}, ${channels}${order}; ${picture.normalisation.text}.`;
  return h('figure', { class: 'picture' }, paint(picture, text), caption(text));
}

function imageView({ bytes, length, content }: Shown): HTMLElement {
  const image = content.image;
  if (!image?.size) return notice('This image does not say how large it is, so it is not decoded.');
  const { width, height } = image.size;
  const text = `${image.type.slice(6).toUpperCase()}, ${count(width)} × ${count(height)}`;
  if (width * height > PIXELS_MAX) {
    return notice(`${text}: more than 64 megapixels are not decoded.`);
  }
  if (bytes.length < length) return notice(`${text}: the record is too long to be read whole here.`, 'note');
  const figure = h('figure', { class: 'picture' }, caption(text));
  paintImage(bytes, image.type, text).then(
    (canvas) => figure.prepend(canvas),
    () => figure.replaceChildren(notice(`${text}, but it cannot be decoded.`)),
  );
  return figure;
}

function textView({ bytes, length }: Shown): HTMLElement {
  const part = bytes.subarray(0, TEXT_BYTES);
  const text = new TextDecoder().decode(part, { stream: part.length < length });
  return h(
    'figure',
    { class: 'whole' },
    h('pre', { class: 'text', tabindex: 0, 'aria-label': 'Text' }, text),
    rest(part.length, length),
  );
}

function rest(there: number, length: number): HTMLElement {
  return caption(
    there < length ? `The first ${count(there)} of ${count(length)} bytes.` : counted(length, 'byte') + '.',
  );
}

function waveformView({ bytes, content }: Shown): HTMLElement {
  const numbers = numbersOf(bytes, content.dtype);
  const [low, high] = extent(numbers);
  const whole = content.shape[0] ?? 0;
  const part = numbers.length < whole ? `The first ${count(numbers.length)} of ` : '';
  const text = `${part}${counted(whole, 'value')}, from ${shown(low)} to ${shown(high)}.`;
  return h('figure', {}, drawCurve(numbers, low, high, text), caption(text));
}

function tokensView({ bytes, content }: Shown): HTMLElement {
  const { dtype, shape } = content;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const there = Math.min(Math.floor(bytes.length / dtype.size), TOKENS);
  const tokens = Array.from({ length: there }, (_, at) => String(dtype.read(view, at * dtype.size)));
  const whole = shape[0] ?? 0;
  const text =
    there < whole ? `The first ${count(there)} of ${count(whole)} tokens.` : `${counted(whole, 'token')}.`;
  return h(
    'figure',
    { class: 'whole' },
    h('pre', { class: 'tokens', tabindex: 0, 'aria-label': 'Tokens' }, tokens.join(' ')),
    caption(text),
  );
}

function hexView({ bytes, length }: Shown): HTMLElement {
  const part = bytes.subarray(0, HEX_BYTES);
  const lines: string[] = [];
  for (let at = 0; at < part.length; at += 16) {
    const row = part.subarray(at, at + 16);
    const digits = Array.from(row, (byte) => byte.toString(16).padStart(2, '0'));
    const text = Array.from(row, (byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.'));
    const halves = `${digits.slice(0, 8).join(' ').padEnd(23)}  ${digits.slice(8).join(' ').padEnd(23)}`;
    lines.push(`${at.toString(16).padStart(8, '0')}  ${halves}  ${text.join('')}`);
  }
  return h(
    'figure',
    { class: 'whole' },
    h(
      'pre',
      { class: 'hex', tabindex: 0, 'aria-label': 'Bytes in hexadecimal' },
      lines.join('\n') || 'no bytes',
    ),
    rest(part.length, length),
  );
}

/** What is said of a record in one line. */
export function describe({ dtype, shape }: Content): string {
  return `${dtype.name}, ${shapeText(shape)}`;
}

/** No clipboard gets more values. */
const COPY_MAX = 1_000_000;

/** The record as text, for the clipboard. */
export function copyText(view: View, { bytes, length, content }: Shown): string {
  const { dtype } = content;
  if (bytes.length < length || bytes.length > COPY_MAX * Math.max(1, dtype.size)) {
    throw new Error('It is too long to copy');
  }
  if (view === 'text') return new TextDecoder().decode(bytes);
  if (view === 'hex' || dtype.size === 0 || view === 'image') {
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  }
  return nested(bytes, dtype, content.shape);
}

/** Values as nested lists, which Python and JSON read. */
function nested(bytes: Uint8Array, dtype: Dtype, shape: readonly number[]): string {
  // A shape without values may have sizes without end.
  if (bytes.length === 0) return '[]';
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const limit = Math.floor(bytes.length / dtype.size);
  let position = 0;
  const list = (depth: number): string => {
    if (depth === shape.length) {
      const item = position < limit ? dtype.read(view, position * dtype.size) : null;
      position += 1;
      return isReal(dtype) ? String(item) : JSON.stringify(item);
    }
    return `[${Array.from({ length: shape[depth] ?? 0 }, () => list(depth + 1)).join(', ')}]`;
  };
  return list(0);
}
