// What the parts of the page share about the store that is open.

import { Checks } from '../data/ranges.ts';
import { lookedAt, NOTHING } from '../data/summary.ts';
import type { RecordType } from '../data/content.ts';
import type { Opened, Source, Summary, Usage } from '../protocol.ts';
import type { Client } from './client.ts';

export type Change = 'selection' | 'checks' | 'summary' | 'usage';

export interface Selection {
  /** Both belong to it. */
  first: number;
  last: number;
  /** The record that is shown. */
  cursor: number;
}

export class Session {
  readonly checks: Checks;
  readonly type: RecordType;
  selection: Selection = { first: 0, last: 0, cursor: 0 };
  /** Counts of so many records as were looked at. */
  summary: Summary = NOTHING;
  usage: Usage | undefined;
  private readonly listeners = new Map<Change, Set<() => void>>();

  constructor(
    readonly client: Client,
    readonly source: Source,
    readonly opened: Opened,
  ) {
    this.checks = new Checks(opened.format === 'extended');
    this.type = opened.schema ? { schema: opened.schema } : {};
  }

  get length(): number {
    return this.opened.length;
  }

  get isExact(): boolean {
    return lookedAt(this.summary) >= this.length;
  }

  on(change: Change, listener: () => void): void {
    const listeners = this.listeners.get(change) ?? new Set();
    this.listeners.set(change, listeners.add(listener));
  }

  changed(change: Change): void {
    this.listeners.get(change)?.forEach((listener) => listener());
  }

  /** Shows a record; with `extend` what lies between belongs to the selection. */
  select(index: number, extend = false): void {
    const cursor = Math.max(0, Math.min(index, this.length - 1));
    const { first, last, cursor: before } = this.selection;
    const anchor = before === first ? last : first;
    this.selection = extend
      ? { first: Math.min(anchor, cursor), last: Math.max(anchor, cursor), cursor }
      : { first: cursor, last: cursor, cursor };
    this.changed('selection');
  }
}
