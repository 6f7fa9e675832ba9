// What a sampler would draw: its first batches, and how evenly they cover.

import { coverage } from '../data/coverage.ts';
import { count, counted, percent } from '../data/format.ts';
import type { SamplerOptions } from '../protocol.ts';
import { textOf } from './client.ts';
import { button, field, fill, h, notice } from './dom.ts';
import type { Session } from './session.ts';

const BATCHES_SHOWN = 4;
const INDICES_SHOWN = 64;
const INDICES_MAX = 1 << 20;
const MODES = ['cyclic', 'iid', 'sequential'] as const;
const MODE_TEXT: Readonly<Record<SamplerOptions['mode'], string>> = {
  sequential: 'In order, again and again.',
  iid: 'Uniform, with replacement: some records come twice before others come once.',
  cyclic: 'Without replacement: each cycle is another random order, and no batch lies in two.',
};

export function samplerPanel(session: Session, openRecord: (index: number) => void): HTMLElement {
  if (session.length === 0) return h('p', { class: 'empty' }, 'There is nothing to draw from.');
  const number = (value: number, min: number, max: number) =>
    h('input', { type: 'number', value, min, max, required: true });
  const mode = h('select', {}, ...MODES.map((one) => h('option', { value: one }, one)));
  const seed = h('input', {
    type: 'text',
    inputmode: 'numeric',
    pattern: '[0-9]{1,20}',
    value: 42,
    required: true,
  });
  const batchSize = number(Math.min(256, session.length), 1, 65_536);
  const batches = number(16, 1, 65_536);
  const ranks = number(1, 1, 65_536);
  const output = h('div', {});
  const form = h(
    'form',
    { class: 'fields' },
    field('Mode', mode),
    field('Seed', seed),
    field('Batch size', batchSize),
    field('Batches', batches),
    field('Ranks', ranks),
    h('button', { type: 'submit', class: 'primary' }, 'Draw'),
  );
  const draw = async () => {
    const options: SamplerOptions = {
      length: session.length,
      batchSize: Number(batchSize.value),
      mode: mode.value as SamplerOptions['mode'],
      seed: BigInt(seed.value),
      rank: 0,
      worldSize: Number(ranks.value),
    };
    try {
      fill(output, ...(await show(session, options, Number(batches.value), openRecord)));
    } catch (error) {
      fill(output, notice(textOf(error)));
    }
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    void draw();
  });
  mode.addEventListener('change', () => void draw());
  void draw();
  return h('section', { class: 'card sampler' }, h('h2', {}, 'Sampler'), form, output);
}

async function show(
  session: Session,
  options: SamplerOptions,
  batches: number,
  openRecord: (index: number) => void,
): Promise<HTMLElement[]> {
  if (options.seed >= 1n << 64n) throw new Error('A seed is below 2^64.');
  const perBatch = options.batchSize * options.worldSize;
  if (batches * perBatch > INDICES_MAX)
    throw new Error(`More than ${count(INDICES_MAX)} indices are not drawn here.`);
  // Rank 0 of a world of one has the whole global batch.
  const whole = { ...options, batchSize: perBatch, worldSize: 1 };
  const { indices, batchesPerCycle } = await session.client.call('batches', whole, 0, batches);
  const cycle =
    batchesPerCycle === undefined
      ? ''
      : ` A cycle has ${counted(batchesPerCycle, 'batch').replace('batchs', 'batches')}.`;
  const firsts = Array.from({ length: Math.min(BATCHES_SHOWN, batches) }, (_, step) =>
    batchRow(indices.slice(step * perBatch, (step + 1) * perBatch), step, options, openRecord),
  );
  return [
    h('p', { class: 'meta' }, `${MODE_TEXT[options.mode]}${cycle}`),
    coverageChart(indices, session.length),
    h('h3', {}, 'First batches'),
    ...firsts,
  ];
}

function batchRow(
  indices: number[],
  step: number,
  { batchSize, worldSize }: SamplerOptions,
  openRecord: (index: number) => void,
): HTMLElement {
  const chips = indices.slice(0, INDICES_SHOWN).map((index, at) => {
    const rank = worldSize > 1 ? `, rank ${Math.floor(at / batchSize)}` : '';
    const chip = button(count(index), () => openRecord(index), 'link');
    chip.setAttribute('aria-label', `Record ${count(index)}${rank}`);
    return chip;
  });
  const more =
    indices.length > INDICES_SHOWN &&
    h('span', { class: 'muted' }, `and ${count(indices.length - INDICES_SHOWN)} more`);
  return h(
    'div',
    { class: 'batch' },
    h('span', { class: 'step' }, `Step ${step}`),
    h('div', { class: 'chips', 'data-step': step }, ...chips, more),
  );
}

function coverageChart(indices: number[], length: number): HTMLElement {
  const { drawn, distinct, parts, even } = coverage(indices, length);
  const most = Math.max(1, ...parts);
  const bars = parts.map((records, part) => {
    const bar = h('span', { class: 'bar' });
    bar.style.height = `${(100 * records) / most}%`;
    const first = Math.ceil((part * length) / parts.length);
    const end = Math.ceil(((part + 1) * length) / parts.length);
    const text = `Records ${count(first)} to ${count(Math.max(first, end - 1))}: ${count(records)} drawn`;
    return h('li', { title: text }, bar, h('span', { class: 'hidden' }, text));
  });
  const [fewest, largest] = [Math.min(...parts), Math.max(...parts)];
  const text =
    `${count(drawn)} drawn, ${count(distinct)} different ones (${percent(distinct, length)} of all records). ` +
    `Of ${parts.length} equal parts of the store each would have ${even.toPrecision(3)}; they have ${count(fewest)} to ${count(largest)}.`;
  return h(
    'figure',
    { class: 'chart' },
    h('h3', {}, 'Coverage'),
    h('ul', { class: 'histogram' }, ...bars),
    h(
      'div',
      { class: 'axis', 'aria-hidden': 'true' },
      h('span', {}, 'record 0'),
      h('span', {}, `record ${count(length - 1)}`),
    ),
    h('figcaption', { 'aria-live': 'polite' }, text),
  );
}
