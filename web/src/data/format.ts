// Numbers for people.

const COUNT = new Intl.NumberFormat('en');
const UNITS = ['bytes', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function count(value: number): string {
  return COUNT.format(value);
}

/** A number and its noun: `1 record`, `2 records`. */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? '' : 's'}`;
}

/** A size to three digits: `12.3 MiB`. */
export function size(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= 1023.5 && unit < UNITS.length - 1) [value, unit] = [value / 1024, unit + 1];
  if (unit === 0) return bytes === 1 ? '1 byte' : `${bytes} bytes`;
  return `${value.toPrecision(value >= 1000 ? 4 : 3)} ${UNITS[unit]}`;
}

/** A ratio of plain to stored bytes. */
export function ratio(plain: number, stored: number): string {
  return stored === 0 ? '–' : `${(plain / stored).toFixed(2)}×`;
}

export function percent(part: number, whole: number): string {
  if (whole === 0) return '0 %';
  const share = (100 * part) / whole;
  if (part === whole || part === 0) return `${share} %`;
  // What is not all is never said to be all, nor none.
  if (share < 0.1) return '< 0.1 %';
  return share > 99.9 ? '> 99.9 %' : `${share.toPrecision(share < 10 ? 2 : 3)} %`;
}

/** A value of a tensor in few characters. */
export function value(item: number | bigint | string): string {
  if (typeof item !== 'number') return String(item);
  if (Number.isInteger(item) && Math.abs(item) < 1e7) return Object.is(item, -0) ? '-0' : String(item);
  if (!Number.isFinite(item)) return Number.isNaN(item) ? 'nan' : item > 0 ? 'inf' : '-inf';
  const magnitude = Math.abs(item);
  if (magnitude >= 1e-4 && magnitude < 1e7) return String(Number(item.toPrecision(6)));
  return item.toExponential(4);
}

export function shape(sizes: readonly number[]): string {
  return sizes.length === 0 ? 'scalar' : sizes.join(' × ');
}

export function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
