// Counts of records, summed and drawn.

import type { Summary } from '../protocol.ts';

export function add(one: Summary, other: Summary): Summary {
  const sums = (left: number[], right: number[]) =>
    left.map((value, position) => value + (right[position] ?? 0));
  return {
    records: one.records + other.records,
    damaged: one.damaged + other.damaged,
    storedBytes: one.storedBytes + other.storedBytes,
    plainBytes: one.plainBytes + other.plainBytes,
    codecs: sums(one.codecs, other.codecs),
    lens: sums(one.lens, other.lens),
    ratios: sums(one.ratios, other.ratios),
  };
}

/** How many records were looked at. */
export const lookedAt = ({ records, damaged }: Summary): number => records + damaged;

export const NOTHING: Summary = {
  records: 0,
  damaged: 0,
  storedBytes: 0,
  plainBytes: 0,
  codecs: [0, 0, 0],
  lens: new Array<number>(33).fill(0),
  ratios: new Array<number>(81).fill(0),
};

export interface Bar {
  label: string;
  count: number;
}

/** From the first bar that counts anything to the last. */
function trimmed(bars: Bar[]): Bar[] {
  const first = bars.findIndex((bar) => bar.count > 0);
  const last = bars.findLastIndex((bar) => bar.count > 0);
  return first < 0 ? [] : bars.slice(first, last + 1);
}

/** Lengths by their bits: 2^(b-1) up to 2^b - 1. */
export function lengthBars(lens: readonly number[]): Bar[] {
  return trimmed(
    lens.map((count, bits) => {
      if (bits === 0) return { label: '0 bytes', count };
      if (bits === 1) return { label: '1 byte', count };
      return { label: `${power(bits - 1)} to below ${power(bits)}`, count };
    }),
  );
}

function power(bits: number): string {
  const units = ['bytes', 'KiB', 'MiB', 'GiB'];
  const unit = Math.min(units.length - 1, Math.floor(bits / 10));
  return `${2 ** (bits - 10 * unit)} ${units[unit]}`;
}

/** Ratios in steps of an eighth of a doubling from 1. */
export function ratioBars(ratios: readonly number[]): Bar[] {
  const power = (step: number) => (2 ** (step / 8)).toPrecision(3);
  const last = ratios.length - 1;
  return trimmed(
    ratios.map((count, step) => {
      if (step === 0) return { label: `1 to ${power(1)}, or stored raw`, count };
      const label = step === last ? `${power(step)} and above` : `${power(step)} to ${power(step + 1)}`;
      return { label, count };
    }),
  );
}
