// Counting all records: first a sample, then slices of the whole table.

import { add, lookedAt, NOTHING } from '../data/summary.ts';
import type { Session } from './session.ts';
import { inSlices } from './slices.ts';

/** Chunks are counted in one call, which must not take long unasked. */
export const USAGE_RECORDS_MAX = 1 << 22;

export class Scan {
  private control: AbortController | undefined;
  /** How many records are counted of the run that goes on. */
  done = 0;

  constructor(private readonly session: Session) {}

  get isRunning(): boolean {
    return this.control !== undefined;
  }

  /** A first look: exact where the store is small. */
  async look(): Promise<void> {
    this.session.summary = await this.session.client.call('sample');
    this.session.changed('summary');
  }

  /** Counts all of them. What was counted before a stop is thrown away. */
  async run(): Promise<void> {
    if (this.isRunning || this.session.isExact) return;
    const control = new AbortController();
    this.control = control;
    const { client, length } = this.session;
    let sum = NOTHING;
    try {
      const isWhole = await inSlices({
        total: length,
        first: 1 << 14,
        largest: 1 << 22,
        signal: control.signal,
        work: async (first, count) => {
          const part = await client.call('summarise', first, count);
          sum = add(sum, part);
          return lookedAt(part);
        },
        progress: (done) => {
          this.done = done;
          this.session.changed('summary');
        },
      });
      if (isWhole) this.session.summary = sum;
    } finally {
      this.control = undefined;
      this.session.changed('summary');
    }
  }

  /** Counts chunks where all records are counted, unless that takes long. */
  async finish(): Promise<void> {
    const { isExact, length, usage } = this.session;
    if (isExact && !usage && length <= USAGE_RECORDS_MAX) await this.use();
  }

  async use(): Promise<void> {
    this.session.usage = await this.session.client.call('usage');
    this.session.changed('usage');
  }

  stop(): void {
    this.control?.abort();
  }
}
