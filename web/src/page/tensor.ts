// Numbers with their shape: the last two axes as rows and columns, the others
// chosen.

import { isReal } from '../data/dtype.ts';
import { count, counted, shape as shapeText, value as shown } from '../data/format.ts';
import { extent, numbersOf } from '../data/picture.ts';
import { field, fill, h } from './dom.ts';
import type { Shown } from './views.ts';

const ROWS = 64;
const COLUMNS = 24;

export function tensor(record: Shown): HTMLElement {
  const { content } = record;
  const { shape } = content;
  const columns = shape.length < 2 ? COLUMNS : (shape.at(-1) ?? 0);
  const rows = shape.length < 2 ? Math.ceil((shape[0] ?? 1) / COLUMNS) : (shape.at(-2) ?? 0);
  const outer = shape.slice(0, -2).reduce((product, one) => product * one, 1);
  const body = h('pre', { class: 'numbers', tabindex: 0, 'aria-label': 'Values' });
  const show = (matrix: number) => fill(body, matrixText(record, matrix, rows, columns));
  show(0);
  return h(
    'figure',
    { class: 'whole' },
    outer > 1 && field(`Matrix of ${count(outer)}`, matrixInput(outer, show), 'field row-field'),
    body,
    h('figcaption', {}, summary(record, rows, columns)),
  );
}

function matrixInput(outer: number, show: (matrix: number) => void): HTMLInputElement {
  const input = h('input', { type: 'number', min: 0, max: outer - 1, value: 0 });
  input.addEventListener('input', () => {
    const matrix = Number(input.value);
    if (Number.isInteger(matrix) && matrix >= 0 && matrix < outer) show(matrix);
  });
  return input;
}

function matrixText({ bytes, content }: Shown, matrix: number, rows: number, columns: number): string {
  const { dtype, shape } = content;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const whole = shape.reduce((product, one) => product * one, 1);
  const there = Math.min(Math.floor(bytes.length / dtype.size), whole);
  if (there === 0) return 'no values';
  const lines: string[][] = [];
  for (let row = 0; row < Math.min(rows, ROWS); row += 1) {
    const cells: string[] = [];
    for (let column = 0; column < Math.min(columns, COLUMNS); column += 1) {
      const at = (matrix * rows + row) * columns + column;
      if (at < there) cells.push(shown(dtype.read(view, at * dtype.size)));
    }
    if (columns > COLUMNS) cells.push('…');
    lines.push(cells);
  }
  const width = Math.max(1, ...lines.flatMap((cells) => cells.map((cell) => cell.length)));
  const text = lines.map((cells) => cells.map((cell) => cell.padStart(width)).join(' '));
  if (rows > ROWS) text.push('…');
  return text.join('\n');
}

function summary({ bytes, content }: Shown, rows: number, columns: number): string {
  const { dtype, shape } = content;
  const whole = shape.reduce((product, one) => product * one, 1);
  const parts = [`${dtype.name}, ${shapeText(shape)}: ${counted(whole, 'value')}`];
  if (rows > ROWS || (shape.length > 1 && columns > COLUMNS))
    parts.push(`the first ${Math.min(rows, ROWS)} × ${Math.min(columns, COLUMNS)} are shown`);
  if (isReal(dtype) && whole > 0) {
    const numbers = numbersOf(bytes, dtype);
    const [low, high] = extent(numbers);
    let [sum, finite] = [0, 0];
    for (const number of numbers) {
      if (Number.isFinite(number)) [sum, finite] = [sum + number, finite + 1];
    }
    parts.push(`from ${shown(low)} to ${shown(high)}, mean ${shown(sum / Math.max(1, finite))}`);
    if (finite < numbers.length) parts.push(`${count(numbers.length - finite)} not finite`);
  }
  return `${parts.join('; ')}.`;
}
