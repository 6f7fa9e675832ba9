// What the store is, and how its records are spread.

import { decode } from '@msgpack/msgpack';

import { parseDtype } from '../data/dtype.ts';
import { count, counted, percent, shape, size } from '../data/format.ts';
import { lengthBars, ratioBars, type Bar } from '../data/summary.ts';
import { CODECS, type Usage } from '../protocol.ts';
import { textOf } from './client.ts';
import { button, fill, h, notice } from './dom.ts';
import type { Scan } from './scan.ts';
import type { Session } from './session.ts';

const METADATA_CHARACTERS = 20_000;

export function overviewPanel(session: Session, scan: Scan): HTMLElement {
  return h(
    'div',
    { class: 'overview' },
    h('section', { class: 'card' }, h('h2', {}, 'Store'), details(session)),
    h('section', { class: 'card wide' }, h('h2', {}, 'Records'), counting(session, scan), charts(session)),
  );
}

/** Header and schema. */
function details(session: Session): HTMLElement {
  const list = h('dl', { class: 'details' });
  const show = () =>
    fill(
      list,
      ...detailsOf(session).flatMap(([name, value]) => [
        h('dt', {}, name),
        h('dd', { 'data-detail': name }, value),
      ]),
    );
  session.on('usage', show);
  show();
  const metadata = session.opened.schema?.metadata;
  return h('div', {}, list, metadata && metadata.length > 0 && metadataOf(metadata));
}

function detailsOf({ opened, usage }: Session): [string, string][] {
  const { schema } = opened;
  const typed: [string, string][] = schema
    ? [
        ['Kind', schema.kind],
        ['Dtype', typeText(schema.dtype)],
        ['Item shape', shape(schema.itemShape)],
        ['Codec', schema.codec],
      ]
    : [['Schema', 'none: records are bytes']];
  const identity: [string, string][] =
    opened.format === 'extended'
      ? [
          ['Checksums', 'XXH3 of every record'],
          ['Closed cleanly', opened.isClean ? 'yes' : 'no'],
          ['Generation', count(opened.generation)],
          ['Stride', opened.stride === 0 ? 'none' : count(opened.stride)],
          ['Id', opened.id ?? ''],
        ]
      : [['Checksums', 'none in this format']];
  const leftovers: [string, string][] =
    usage && usage.leftovers.length > 0 ? [['Leftover files', usage.leftovers.join(', ')]] : [];
  return [
    ['Format', `${opened.format}, version ${opened.version}`],
    ...typed,
    ['Dictionaries', dictionaries(opened.dictionaries, usage)],
    ...identity,
    ...leftovers,
  ];
}

function dictionaries(number: number, usage: Usage | undefined): string {
  return usage && number > 0 ? `${count(number)}, ${size(usage.dictionaryBytes)}` : count(number);
}

function typeText(text: string): string {
  const dtype = parseDtype(text);
  return dtype && dtype.name !== text && dtype.kind !== 'fields' ? `${dtype.name} (${text})` : text;
}

/** The user's own map. */
function metadataOf(bytes: Uint8Array): HTMLElement {
  const plain = (_: string, value: unknown) => {
    if (typeof value === 'bigint') return String(value);
    return value instanceof Uint8Array ? `${value.length} bytes` : value;
  };
  try {
    const text = JSON.stringify(decode(bytes), plain, 2) ?? '';
    const part = text.length > METADATA_CHARACTERS ? `${text.slice(0, METADATA_CHARACTERS)}…` : text;
    return h(
      'details',
      { open: true },
      h('summary', {}, 'Metadata'),
      h('pre', { tabindex: 0, 'aria-label': 'Metadata' }, part),
    );
  } catch (error) {
    return notice(`The metadata cannot be read: ${textOf(error)}`);
  }
}

/** How many are counted, and what to do about the rest. */
function counting(session: Session, scan: Scan): HTMLElement {
  const line = h('div', { class: 'inline counting' });
  const status = h('p', { class: 'meta', role: 'status' });
  const progress = h('progress', { 'aria-label': 'Records counted' });
  const stop = button('Stop', () => scan.stop());
  const attempt = (work: Promise<void>) =>
    void work.catch((error: unknown) => line.after(notice(`Counting could not go on. ${textOf(error)}`)));
  const start = button('Count all', () => attempt(scan.run().then(() => scan.finish())));
  const use = button('Count chunks', () => attempt(scan.use()));
  fill(line, status, progress, stop, start, use);
  const show = () => {
    const { summary, length, isExact, usage } = session;
    progress.hidden = !scan.isRunning;
    stop.hidden = !scan.isRunning;
    start.hidden = scan.isRunning || isExact;
    use.hidden = !isExact || usage !== undefined || length === 0;
    progress.max = Math.max(1, length);
    progress.value = scan.done;
    status.textContent = scan.isRunning
      ? `${percent(scan.done, length)} counted; until then estimated from ${count(summary.records)}`
      : isExact
        ? `All ${count(length)} counted${summary.damaged > 0 ? `, of which ${entries(summary.damaged)} damaged` : ''}.`
        : `Estimated from ${count(summary.records)} of ${count(length)}.`;
  };
  session.on('summary', show);
  session.on('usage', show);
  show();
  return line;
}

const entries = (damaged: number) => (damaged === 1 ? '1 entry is' : `${count(damaged)} entries are`);

function charts(session: Session): HTMLElement {
  const body = h('div', { class: 'charts' });
  let drawn: unknown;
  const show = () => {
    const { summary } = session;
    if (summary === drawn) return;
    drawn = summary;
    fill(
      body,
      histogram('Lengths', lengthBars(summary.lens), summary.records, sameLength(session)),
      histogram('Compression ratios', ratioBars(summary.ratios), summary.records),
      codecs(summary.codecs, summary.records),
    );
  };
  session.on('summary', show);
  show();
  return body;
}

/** `same` is said where one bar would be all. */
function histogram(title: string, bars: Bar[], all: number, same = ''): HTMLElement {
  const [only] = bars;
  if (!only || bars.length === 1) {
    const text = only ? same || `All ${count(only.count)}: ${only.label}` : 'No records';
    return h('figure', { class: 'chart' }, h('h3', {}, title), h('p', { class: 'single' }, text));
  }
  const most = Math.max(1, ...bars.map((bar) => bar.count));
  const items = bars.map(({ label, count: records }) => {
    const text = `${label}: ${count(records)} (${percent(records, all)})`;
    const bar = h('span', { class: 'bar' });
    // A bar of few is still seen.
    bar.style.height = records === 0 ? '0' : `max(2px, ${(100 * records) / most}%)`;
    return h('li', { title: text }, bar, h('span', { class: 'hidden' }, text));
  });
  const ends = [only.label, bars.at(-1)?.label ?? ''];
  return h(
    'figure',
    { class: 'chart' },
    h('h3', {}, title),
    h('ul', { class: 'histogram' }, ...items),
    h('div', { class: 'axis', 'aria-hidden': 'true' }, ...ends.map((end) => h('span', {}, end))),
  );
}

function sameLength({ opened: { schema } }: Session): string {
  return schema?.kind === 'dense' ? `Every record has ${counted(schema.rowBytes, 'byte')}` : '';
}

function codecs(counts: readonly number[], all: number): HTMLElement {
  const rows = CODECS.map((codec, position) => {
    const records = counts[position] ?? 0;
    const bar = h('span', { class: 'bar' });
    bar.style.width = `${all === 0 ? 0 : (100 * records) / all}%`;
    return h(
      'li',
      { 'data-codec': codec },
      h('span', {}, codec),
      h('span', { class: 'bar-track' }, bar),
      h('span', { class: 'number' }, count(records)),
      h('span', { class: 'number muted' }, percent(records, all)),
    );
  });
  return h('figure', { class: 'chart' }, h('h3', {}, 'Codecs'), h('ul', { class: 'codecs' }, ...rows));
}
