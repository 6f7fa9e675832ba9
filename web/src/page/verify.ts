// Checking everything, with what is found as it is found.

import { count, counted, percent } from '../data/format.ts';
import type { Fault } from '../protocol.ts';
import { textOf } from './client.ts';
import { button, fill, h, notice } from './dom.ts';
import type { Session } from './session.ts';
import { endLate, inSlices } from './slices.ts';

/** More are counted, not listed. */
const FAULTS_SHOWN = 500;

export function verifyPanel(session: Session, openRecord: (index: number) => void): HTMLElement {
  return new VerifyPanel(session, openRecord).element;
}

class VerifyPanel {
  readonly element: HTMLElement;
  private readonly start = button('Verify', () => void this.run(), 'primary');
  private readonly stop = button('Stop', () => this.control?.abort());
  private readonly progress = h('progress', { 'aria-label': 'Records verified', max: 1, value: 0 });
  private readonly status = h('p', { class: 'meta', role: 'status' });
  private readonly outcome = h('div', {});
  private readonly body = h('tbody', {});
  private readonly table: HTMLElement;
  private control: AbortController | undefined;
  private faults = 0;

  constructor(
    private readonly session: Session,
    private readonly openRecord: (index: number) => void,
  ) {
    const heads = ['File', 'Byte', 'Record', 'What is wrong'];
    this.table = h(
      'table',
      { class: 'faults', hidden: true },
      h('caption', { class: 'hidden' }, 'Faults'),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          ...heads.map((head) =>
            h('th', { scope: 'col', class: ['Byte', 'Record'].includes(head) ? 'number' : '' }, head),
          ),
        ),
      ),
      this.body,
    );
    this.stop.hidden = true;
    this.progress.hidden = true;
    const text =
      session.opened.format === 'extended'
        ? 'Reads every record, compares its checksum, decodes it, and checks header, table, schema and dictionaries.'
        : 'Reads and decodes every record, and checks header, table, schema and dictionaries. This format has no checksums, so damage that still decodes is not seen.';
    this.element = h(
      'section',
      { class: 'card verify' },
      h('h2', {}, 'Verify'),
      h('p', { class: 'meta' }, text),
      h('div', { class: 'inline' }, this.start, this.stop, this.progress, this.status),
      this.outcome,
      h('div', { class: 'scroll-x' }, this.table),
    );
  }

  private async run(): Promise<void> {
    const control = new AbortController();
    this.control = control;
    this.faults = 0;
    fill(this.body);
    fill(this.outcome);
    this.table.hidden = true;
    this.running(true);
    const { client } = this.session;
    const work = this.check(control.signal);
    endLate(control.signal, work, () => client.kill());
    try {
      const isWhole = await work;
      this.finish(isWhole);
    } catch (error) {
      if (control.signal.aborted) this.finish(false);
      else fill(this.outcome, notice(`Verifying could not go on. ${textOf(error)}`));
    } finally {
      this.running(false);
      this.session.changed('checks');
    }
  }

  private running(isRunning: boolean): void {
    this.start.disabled = isRunning;
    this.stop.hidden = !isRunning;
    this.progress.hidden = !isRunning;
    if (!isRunning) this.control = undefined;
  }

  private async check(signal: AbortSignal): Promise<boolean> {
    const { client, length, checks } = this.session;
    this.status.textContent = 'Header and table…';
    this.add(await client.call('verifyStructure'));
    return inSlices({
      total: length,
      first: 64,
      largest: 1 << 16,
      signal,
      work: async (first, records) => {
        const faults = await client.call('verify', first, records);
        checks.add(first, records);
        this.add(faults);
      },
      progress: (done) => this.advance(done, length),
    });
  }

  private advance(done: number, length: number): void {
    this.progress.max = Math.max(1, length);
    this.progress.value = done;
    this.status.textContent = `${count(done)} of ${counted(length, 'record')}, ${percent(done, length)}`;
  }

  private add(faults: Fault[]): void {
    for (const fault of faults) {
      if (fault.index !== undefined) this.session.checks.addDamaged(fault.index);
      if (this.faults < FAULTS_SHOWN) this.body.append(this.row(fault));
      this.faults += 1;
    }
    this.table.hidden = this.faults === 0;
    if (faults.length > 0) this.session.changed('checks');
  }

  private row({ file, offset, index, reason }: Fault): HTMLElement {
    const record = index === undefined ? '' : button(count(index), () => this.openRecord(index), 'link');
    return h(
      'tr',
      {},
      h('td', {}, file),
      h('td', { class: 'number' }, offset === undefined ? '' : count(offset)),
      h('td', { class: 'number' }, record),
      h('td', {}, reason),
    );
  }

  private finish(isWhole: boolean): void {
    const found = this.faults === 0 ? 'nothing wrong was found' : `${counted(this.faults, 'fault')} found`;
    this.status.textContent = isWhole ? 'Done.' : 'Stopped.';
    const text = isWhole
      ? this.faults === 0
        ? `All ${counted(this.session.length, 'record')} are intact.`
        : `${counted(this.faults, 'fault')} found.`
      : `Stopped before the end; ${found} until then.`;
    const isGood = isWhole && this.faults === 0;
    const more = this.faults > FAULTS_SHOWN && notice(`The first ${FAULTS_SHOWN} are listed.`, 'note');
    fill(
      this.outcome,
      h('p', { class: isGood ? 'verdict good' : this.faults ? 'verdict bad' : 'verdict' }, text),
      more,
    );
  }
}
