// What is drawn on canvases: pictures, encoded images, curves.

import type { Numbers, Picture } from '../data/picture.ts';
import { h } from './dom.ts';

function canvas(width: number, height: number, label: string): HTMLCanvasElement {
  // One without a label is an ornament.
  const role = label === '' ? { 'aria-hidden': 'true' } : { role: 'img', 'aria-label': label };
  return h('canvas', { width, height, ...role });
}

export function paint(picture: Picture, label: string): HTMLCanvasElement {
  const element = canvas(picture.width, picture.height, label);
  const image = new ImageData(picture.pixels, picture.width, picture.height);
  element.getContext('2d')?.putImageData(image, 0, 0);
  // Small pictures are shown larger, pixel by pixel.
  if (Math.max(picture.width, picture.height) <= 128) element.classList.add('pixels');
  return element;
}

/** An encoded image whose head was looked at before. */
export async function paintImage(
  bytes: Uint8Array<ArrayBuffer>,
  type: string,
  label: string,
  sideMax = 2048,
): Promise<HTMLCanvasElement> {
  const bitmap = await createImageBitmap(new Blob([bytes], { type }));
  const scale = Math.min(1, sideMax / Math.max(bitmap.width, bitmap.height));
  const [width, height] = [bitmap.width, bitmap.height].map((side) => Math.max(1, Math.round(side * scale)));
  const element = canvas(width ?? 1, height ?? 1, label);
  element.getContext('2d')?.drawImage(bitmap, 0, 0, element.width, element.height);
  if (Math.max(bitmap.width, bitmap.height) <= 128) element.classList.add('pixels');
  bitmap.close();
  return element;
}

/** The lowest and highest value of every column of pixels. */
export function drawCurve(
  numbers: Numbers,
  low: number,
  high: number,
  label: string,
  [width, height] = [1200, 320],
): HTMLCanvasElement {
  const element = canvas(width ?? 1, height ?? 1, label);
  element.classList.add('curve');
  const context = element.getContext('2d');
  if (!context || numbers.length === 0) return element;
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--accent') || '#087';
  const range = high > low ? high - low : 1;
  const y = (number: number) => (1 - (number - low) / range) * (element.height - 2);
  for (let column = 0; column < element.width; column += 1) {
    const first = Math.floor((column / element.width) * numbers.length);
    const end = Math.max(first + 1, Math.floor(((column + 1) / element.width) * numbers.length));
    let [bottom, top] = [Infinity, -Infinity];
    // The value before as well, so that the curve has no gaps.
    for (let at = Math.max(0, first - 1); at < end; at += 1) {
      const number = numbers[at] ?? NaN;
      if (number < bottom) bottom = number;
      if (number > top) top = number;
    }
    if (bottom <= top) context.fillRect(column, y(top), 1, Math.max(2, y(bottom) - y(top)));
  }
  return element;
}
