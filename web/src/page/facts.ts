// The numbers at the top of an open store.

import { count, counted, ratio, size } from '../data/format.ts';
import { fill, h } from './dom.ts';
import { lookedAt } from '../data/summary.ts';
import { USAGE_RECORDS_MAX } from './scan.ts';
import type { Session } from './session.ts';

export function factsStrip(session: Session): HTMLElement {
  const list = h('dl', { class: 'facts' });
  const show = () => fill(list, ...factsOf(session).map(fact));
  session.on('summary', show);
  session.on('usage', show);
  show();
  return list;
}

interface Fact {
  name: string;
  value: string;
  note: string;
}

function fact({ name, value, note }: Fact): HTMLElement {
  const key = name.toLowerCase().replaceAll(' ', '-');
  return h(
    'div',
    { 'data-fact': key },
    h('dt', {}, name),
    h('dd', {}, value),
    h('dd', { class: 'note' }, note),
  );
}

function factsOf(session: Session): Fact[] {
  const { opened, summary, usage, length } = session;
  const sums = sumsOf(session);
  const from = sums.isExact ? '' : `estimated from ${count(summary.records)}`;
  const bytes = (value: number) => (sums.isExact ? counted(value, 'byte') : from);
  const later =
    session.source.kind === 'files' && length <= USAGE_RECORDS_MAX ? 'after counting' : 'count in Overview';
  const isKnown = sums.isExact || summary.records > 0;
  const shown = (value: string) => (isKnown ? value : '…');
  return [
    { name: 'Records', value: count(length), note: opened.schema?.kind ?? 'untyped' },
    { name: 'Plain', value: shown(size(sums.plain)), note: isKnown ? bytes(sums.plain) : '' },
    { name: 'Stored', value: shown(size(sums.stored)), note: isKnown ? bytes(sums.stored) : '' },
    { name: 'Ratio', value: shown(ratio(sums.plain, sums.stored)), note: from || 'plain to stored' },
    {
      name: 'Chunks',
      value: usage ? count(usage.chunks) : '…',
      note: usage ? counted(usage.chunkBytes, 'byte') : later,
    },
    {
      name: 'Reclaimable',
      value: usage ? size(usage.reclaimableBytes) : '…',
      note: usage ? reclaimed(usage.reclaimableBytes) : later,
    },
  ];
}

function reclaimed(bytes: number): string {
  return bytes === 0 ? 'nothing to compact' : counted(bytes, 'byte');
}

/** Sums of the header where it has them, else counted ones, else an estimate
 * from a sample. */
export function sumsOf(session: Session): { plain: number; stored: number; isExact: boolean } {
  const { opened, summary, length, isExact } = session;
  if (opened.format === 'extended' && opened.troubles.length === 0) {
    return { plain: opened.plainBytes, stored: opened.storedBytes, isExact: true };
  }
  const scale = isExact ? 1 : summary.records === 0 ? 0 : length / lookedAt(summary);
  return {
    plain: Math.round(summary.plainBytes * scale),
    stored: Math.round(summary.storedBytes * scale),
    isExact,
  };
}
