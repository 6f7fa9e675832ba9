// What the bytes of a record mean, by the text that a schema has for it:
// NumPy's `dtype.str`, the name of a type of `ml_dtypes`, or the list of
// fields of a structured type.

import { BFLOAT16, HALF, MINIFLOATS, decodeMinifloat, type Minifloat } from './minifloat.ts';
import { parseLiteral, type Literal } from './literal.ts';
import { value as shown } from './format.ts';

export type Value = number | bigint | string;

export interface Dtype {
  /** As the schema has it. */
  text: string;
  /** In words: `float32`. */
  name: string;
  /** The bytes of one value. */
  size: number;
  kind: 'bool' | 'int' | 'uint' | 'float' | 'complex' | 'text' | 'time' | 'void' | 'fields';
  read(view: DataView, at: number): Value;
}

/** Types whose values are numbers that can be drawn. */
export function isReal(dtype: Dtype): boolean {
  return ['bool', 'int', 'uint', 'float'].includes(dtype.kind);
}

/** None where this page does not know the type: its bytes can still be shown. */
export function parseDtype(text: string): Dtype | undefined {
  if (text.startsWith('[')) return structured(text);
  return small(text) ?? simple(text);
}

const INTS: Readonly<Record<string, [bits: number, isSigned: boolean]>> = {
  int1: [1, true],
  int2: [2, true],
  int4: [4, true],
  uint1: [1, false],
  uint2: [2, false],
  uint4: [4, false],
};

/** The types of `ml_dtypes`. */
function small(text: string): Dtype | undefined {
  const of = (size: number, kind: Dtype['kind'], read: Dtype['read']): Dtype => ({
    text,
    name: text,
    size,
    kind,
    read,
  });
  const float = (size: 1 | 2, type: Minifloat) => (view: DataView, at: number) =>
    decodeMinifloat(size === 1 ? view.getUint8(at) : view.getUint16(at, true), type);
  const ints = INTS[text];
  if (ints) {
    const [bits, isSigned] = ints;
    return of(1, isSigned ? 'int' : 'uint', (view, at) => {
      const low = view.getUint8(at) & ((1 << bits) - 1);
      return isSigned && low >= 1 << (bits - 1) ? low - (1 << bits) : low;
    });
  }
  const minifloat = MINIFLOATS[text];
  if (minifloat) return of(1, 'float', float(1, minifloat));
  switch (text) {
    case 'bfloat16':
      return of(2, 'float', float(2, BFLOAT16));
    case 'float8_e8m0fnu':
      return of(1, 'float', (view, at) => {
        const bits = view.getUint8(at);
        return bits === 255 ? NaN : 2 ** (bits - 127);
      });
    case 'complex32':
      return of(4, 'complex', complex(2, float(2, HALF)));
    case 'bcomplex32':
      return of(4, 'complex', complex(2, float(2, BFLOAT16)));
    default:
      return undefined;
  }
}

function complex(part: number, read: (view: DataView, at: number) => number): Dtype['read'] {
  return (view, at) => {
    const imaginary = shown(read(view, at + part));
    const sign = imaginary.startsWith('-') ? '' : '+';
    return `${shown(read(view, at))}${sign}${imaginary}j`;
  };
}

const DTYPE = /^([<>|=])([biufcSUVMm?])(\d*)(\[.*\])?$/;

/** NumPy's `dtype.str`. */
function simple(text: string): Dtype | undefined {
  const parts = DTYPE.exec(text);
  if (!parts) return undefined;
  const [, order, letter = '', digits = '', unit = ''] = parts;
  const little = order !== '>';
  const number = letter === '?' ? 1 : Number(digits);
  // Only texts and bytes may have no length.
  if (number === 0 && !(digits !== '' && 'SUV'.includes(letter)) && !'Mm'.includes(letter)) return undefined;
  if ('Mm'.includes(letter) && number !== 8) return undefined;
  const of = (kind: Dtype['kind'], name: string, size: number, read: Dtype['read']): Dtype => ({
    text,
    name: little || size === 1 ? name : `${name}, big-endian`,
    size,
    kind,
    read,
  });
  switch (letter) {
    case '?':
    case 'b':
      return number === 1 ? of('bool', 'bool', 1, (view, at) => (view.getUint8(at) ? 1 : 0)) : undefined;
    case 'i':
    case 'u': {
      const read = integer(letter, number, little);
      const kind = letter === 'i' ? 'int' : 'uint';
      return read && of(kind, `${kind}${8 * number}`, number, read);
    }
    case 'f': {
      const read = float(number, little);
      return read ? of('float', `float${8 * number}`, number, read) : opaque(of, text, number);
    }
    case 'c': {
      const read = float(number / 2, little);
      const name = `complex${8 * number}`;
      return read ? of('complex', name, number, complex(number / 2, read)) : opaque(of, text, number);
    }
    case 'S':
      return of('text', `bytes of ${number}`, number, (view, at) => latin(view, at, number));
    case 'U':
      return of('text', `text of ${number}`, 4 * number, (view, at) => utf32(view, at, number, little));
    case 'M':
    case 'm':
      return of('time', `${letter === 'M' ? 'datetime64' : 'timedelta64'}${unit}`, 8, (view, at) =>
        time(view.getBigInt64(at, little), letter, unit),
      );
    default:
      return opaque(of, `void of ${number}`, number);
  }
}

type Of = (kind: Dtype['kind'], name: string, size: number, read: Dtype['read']) => Dtype;

function opaque(of: Of, name: string, size: number): Dtype {
  return of('void', name, size, (view, at) => {
    const bytes = new Uint8Array(view.buffer, view.byteOffset + at, size);
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
  });
}

function integer(letter: 'i' | 'u', size: number, little: boolean): Dtype['read'] | undefined {
  const signed = letter === 'i';
  switch (size) {
    case 1:
      return (view, at) => (signed ? view.getInt8(at) : view.getUint8(at));
    case 2:
      return (view, at) => (signed ? view.getInt16(at, little) : view.getUint16(at, little));
    case 4:
      return (view, at) => (signed ? view.getInt32(at, little) : view.getUint32(at, little));
    case 8:
      return (view, at) => (signed ? view.getBigInt64(at, little) : view.getBigUint64(at, little));
    default:
      return undefined;
  }
}

function float(size: number, little: boolean): ((view: DataView, at: number) => number) | undefined {
  switch (size) {
    case 2:
      return (view, at) => decodeMinifloat(view.getUint16(at, little), HALF);
    case 4:
      return (view, at) => view.getFloat32(at, little);
    case 8:
      return (view, at) => view.getFloat64(at, little);
    default:
      return undefined;
  }
}

/** Fixed bytes without the zeros at their end, others than ASCII escaped. */
function latin(view: DataView, at: number, size: number): string {
  let text = '';
  let end = size;
  while (end > 0 && view.getUint8(at + end - 1) === 0) end -= 1;
  for (let position = 0; position < end; position += 1) {
    const byte = view.getUint8(at + position);
    const isPlain = byte >= 0x20 && byte < 0x7f;
    text += isPlain ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0')}`;
  }
  return text;
}

function utf32(view: DataView, at: number, length: number, little: boolean): string {
  let text = '';
  for (let position = 0; position < length; position += 1) {
    const point = view.getUint32(at + 4 * position, little);
    text += point <= 0x10ffff ? String.fromCodePoint(point) : '\ufffd';
  }
  return text.replace(/\0+$/, '');
}

const MILLISECONDS: Readonly<Record<string, number>> = {
  '[D]': 86_400_000,
  '[h]': 3_600_000,
  '[m]': 60_000,
  '[s]': 1000,
  '[ms]': 1,
};
const PER_MILLISECOND: Readonly<Record<string, bigint>> = { '[us]': 1000n, '[ns]': 1_000_000n };

function time(ticks: bigint, letter: string, unit: string): string {
  if (ticks === -(1n << 63n)) return 'NaT';
  const milliseconds = MILLISECONDS[unit];
  const divisor = PER_MILLISECOND[unit];
  if (letter === 'M' && (milliseconds || divisor)) {
    const moment = milliseconds ? Number(ticks) * milliseconds : Number(ticks / (divisor ?? 1n));
    // Dates end where those of JavaScript do.
    if (Math.abs(moment) <= 8.64e15) return new Date(moment).toISOString().replace(/\.000Z$/, 'Z');
  }
  return `${ticks} ${unit.slice(1, -1)}`.trim();
}

/** A structured type: `[('x', '<f4'), ('y', '<i2', (2, 3))]`. */
function structured(text: string): Dtype | undefined {
  const literal = parseLiteral(text);
  return Array.isArray(literal) ? fieldsOf(literal, text) : undefined;
}

interface Field {
  name: string;
  at: number;
  count: number;
  dtype: Dtype;
}

function fieldsOf(literal: Literal[], text: string): Dtype | undefined {
  const fields: Field[] = [];
  let size = 0;
  for (const entry of literal) {
    if (!Array.isArray(entry)) return undefined;
    const [label, type, sizes = []] = entry;
    const name = Array.isArray(label) ? label[1] : label;
    const dtype = Array.isArray(type) ? fieldsOf(type, text) : parseDtype(String(type));
    if (typeof name !== 'string' || !dtype || !Array.isArray(sizes)) return undefined;
    const count = sizes.reduce<number>((product, one) => product * Number(one), 1);
    if (!Number.isSafeInteger(count) || count < 0) return undefined;
    // What has no name is padding.
    if (name !== '') fields.push({ name, at: size, count, dtype });
    size += count * dtype.size;
  }
  return { text, name: 'fields', size, kind: 'fields', read: readFields(fields) };
}

/** No more values of one field are shown. */
const FIELD_VALUES_MAX = 8;

function readFields(fields: Field[]): Dtype['read'] {
  return (view, at) => {
    const texts = fields.map(({ name, at: start, count, dtype }) => {
      const values = Array.from({ length: Math.min(count, FIELD_VALUES_MAX) }, (_, position) =>
        shown(dtype.read(view, at + start + position * dtype.size)),
      );
      if (count > FIELD_VALUES_MAX) values.push('…');
      return `${name}: ${count === 1 ? values[0] : `[${values.join(', ')}]`}`;
    });
    return `{${texts.join(', ')}}`;
  };
}
