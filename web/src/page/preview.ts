// The record that is selected: its entry in the table and its content.

import { contentOf, type View } from '../data/content.ts';
import { count, counted, size } from '../data/format.ts';
import type { RecordBytes, RowOrError } from '../protocol.ts';
import { CallError, textOf } from './client.ts';
import { button, download, fill, h, notice } from './dom.ts';
import type { Session } from './session.ts';
import { Tabs } from './tabs.ts';
import { copyText, describe, VIEW_NAMES, viewOf, type Shown } from './views.ts';

/** Longer records are shown by their beginning. */
const WHOLE_MAX = { files: 64 << 20, url: 4 << 20 };
const FILE_ENDINGS: Readonly<Record<string, string>> = {
  'image/png': 'png',
  'image/jpeg': 'jpg',
  'image/webp': 'webp',
  'image/gif': 'gif',
};

export class Preview {
  readonly element: HTMLElement;
  private readonly title = h('h2', { 'aria-live': 'polite' });
  private readonly facts = h('p', { class: 'meta' });
  private readonly body = h('div', { class: 'body' });
  private readonly actions = h('div', { class: 'actions' });
  private view: View = 'hex';
  /** The view that was chosen last is kept while records have it. */
  private preferred: View | undefined;
  private wanted = -1;
  private isAsking = false;

  constructor(private readonly session: Session) {
    this.element = h(
      'section',
      { class: 'preview card', 'aria-label': 'Selected record' },
      h('div', { class: 'line' }, this.title, this.actions),
      this.facts,
      this.body,
    );
    session.on('selection', () => void this.show());
  }

  /** Shows the record that is selected by the time that the worker is free. */
  async show(): Promise<void> {
    const { cursor } = this.session.selection;
    if (this.session.length === 0 || cursor === this.wanted) return;
    this.wanted = cursor;
    if (this.isAsking) return;
    this.isAsking = true;
    while (this.isAsking) {
      const index = this.wanted;
      await this.load(index);
      this.isAsking = this.wanted !== index;
    }
  }

  private async load(index: number): Promise<void> {
    const { client, source } = this.session;
    const entry = client.call('rows', index, 1).then((rows) => rows[0]);
    const record = client.call('record', index, WHOLE_MAX[source.kind]);
    const [row, read] = await Promise.allSettled([entry, record]);
    if (this.wanted !== index) return;
    this.title.textContent = `Record ${count(index)}`;
    this.describeEntry(row.status === 'fulfilled' ? row.value : undefined);
    if (read.status === 'fulfilled') this.showRecord(index, read.value);
    else this.showFailure(index, read.reason);
  }

  private describeEntry(row: RowOrError | undefined): void {
    if (!row || 'error' in row) return fill(this.facts, row ? row.error : '');
    const packed = row.codec === 'raw' ? 'raw' : `${size(row.storedLen)} by ${row.codec}`;
    const checksum = row.checksum?.toString(16).padStart(8, '0');
    const place = `chunk ${row.chunk} at ${count(row.offset)}`;
    fill(
      this.facts,
      [size(row.len), packed, place, checksum && `XXH3 ${checksum}`].filter(Boolean).join(' · '),
    );
  }

  private showFailure(index: number, error: unknown): void {
    const isDamage = error instanceof CallError && error.failure.kind === 'corrupt';
    if (isDamage) {
      this.session.checks.addDamaged(index);
      this.session.changed('checks');
    }
    fill(this.actions);
    fill(this.body, notice(isDamage ? `This record is damaged. ${textOf(error)}` : textOf(error)));
  }

  private showRecord(index: number, record: RecordBytes): void {
    const { bytes, length, isChecked } = record;
    if (isChecked) this.session.checks.add(index, 1);
    this.session.changed('checks');
    const content = contentOf(this.session.type, bytes, length);
    const shown: Shown = { bytes, length, content };
    const tabs = this.viewTabs(shown);
    const isPart = bytes.length < length;
    fill(
      this.actions,
      button('Copy', () => void this.copy(() => copyText(this.view, shown))),
      button(isPart ? 'Download beginning' : 'Download', () => this.save(index, shown)),
    );
    const part = `Too long to be read whole: the first ${size(bytes.length)} of ${size(length)}, checksum not compared.`;
    const summary = h('p', { class: 'meta' }, describe(content));
    fill(this.body, summary, isPart && notice(part, 'note'), tabs.list, tabs.panels);
  }

  private viewTabs(shown: Shown): Tabs {
    const { views } = shown.content;
    const tabs = new Tabs(
      'How the record is shown',
      views.map((view) => ({
        label: VIEW_NAMES[view],
        make: () => safely(() => viewOf(view, shown)),
        shown: () => (this.view = view),
      })),
      'tabs small',
    );
    tabs.show(this.preferred === undefined ? 0 : Math.max(0, views.indexOf(this.preferred)));
    // Only what somebody chose is kept.
    tabs.list.addEventListener('click', () => (this.preferred = this.view));
    tabs.list.addEventListener('keyup', () => (this.preferred = this.view));
    return tabs;
  }

  private async copy(make: () => string): Promise<void> {
    const status = h('span', { class: 'status', role: 'status' });
    this.actions.prepend(status);
    try {
      const text = make();
      await navigator.clipboard.writeText(text);
      status.textContent = `Copied ${counted(text.length, 'character')}`;
    } catch (error) {
      const isRefused = error instanceof DOMException;
      status.textContent = isRefused ? 'The browser does not let this page copy' : textOf(error);
    }
    setTimeout(() => status.remove(), 4000);
  }

  private save(index: number, { bytes, content }: Shown): void {
    const type = content.image?.type;
    const ending = type ? FILE_ENDINGS[type] : content.views[0] === 'text' ? 'txt' : 'bin';
    download([bytes], `${this.session.source.name}-${index}.${ending}`, type);
  }
}

/** A view that cannot be made says so, and the others stay. */
function safely(make: () => HTMLElement): HTMLElement {
  try {
    return make();
  } catch (error) {
    return notice(`This cannot be shown. ${textOf(error)}`);
  }
}
