// The table of records: a few dozen rows that show any part of it.

import { count, ratio, size } from '../data/format.ts';
import { ScaledScroll } from '../data/scroll.ts';
import type { CheckState } from '../data/ranges.ts';
import type { RowOrError } from '../protocol.ts';
import { CallError, textOf } from './client.ts';
import { h, unique } from './dom.ts';
import type { Session } from './session.ts';

const ROW_HEIGHT = 28;
const HEAD_HEIGHT = 33;
/** Rows that are asked for at once, and how many such pages are kept. */
const PAGE_ROWS = 128;
const PAGES_MAX = 64;

const COLUMNS = [
  ['Index', 'index'],
  ['Chunk', 'chunk'],
  ['Offset', 'offset'],
  ['Stored', 'stored'],
  ['Length', 'length'],
  ['Ratio', 'ratio'],
  ['Codec', 'codec'],
  ['Checksum', 'check'],
] as const;

const CHECKS: Readonly<Record<CheckState, string>> = {
  none: 'none',
  unchecked: 'not checked',
  intact: 'intact',
  damaged: 'damaged',
};

export class RecordTable {
  /** The grid, which is also what scrolls. */
  readonly element: HTMLElement;
  private readonly scroll: ScaledScroll;
  private readonly layer = h('div', { class: 'layer', role: 'presentation' });
  private readonly rows: HTMLElement[] = [];
  private readonly pages = new Map<number, RowOrError[]>();
  private readonly id = unique('row');
  /** Where the scrollbar was last seen. */
  private bar = 0;
  private isTouched = false;
  private isAsking = false;
  private isDrawing = false;

  constructor(private readonly session: Session) {
    this.scroll = new ScaledScroll(session.length, ROW_HEIGHT, 400);
    const track = h('div', { class: 'track', role: 'rowgroup' }, this.layer);
    track.style.height = `${this.scroll.track}px`;
    this.element = h(
      'div',
      {
        class: 'grid',
        role: 'grid',
        tabindex: 0,
        'aria-label': 'Records',
        'aria-rowcount': session.length + 1,
        'aria-colcount': COLUMNS.length,
        'aria-multiselectable': 'true',
        keydown: (event: KeyboardEvent) => this.key(event),
        scroll: () => this.follow(),
      },
      h('div', { class: 'heads', role: 'rowgroup' }, headRow()),
      track,
    );
    this.element.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    this.touch();
    new ResizeObserver(() => this.resize()).observe(this.element);
    session.on('selection', () => this.selected());
    session.on('checks', () => this.draw());
  }

  private resize(): void {
    // While another tab is shown there is nothing to measure.
    if (this.element.clientHeight === 0) return;
    const { first, count: visible } = this.scroll.visible();
    const { cursor } = this.session.selection;
    this.scroll.viewport = this.element.clientHeight - HEAD_HEIGHT;
    this.layer.style.height = `${this.scroll.viewport}px`;
    this.scroll.moveTo(this.scroll.top);
    if (cursor >= first && cursor < first + visible) this.scroll.reveal(cursor);
    this.moved();
  }

  /** The scrollbar was moved, unless it stands where it was put. A finger moves
   * the list itself, by so many pixels. */
  private follow(): void {
    const bar = this.element.scrollTop;
    const moved = bar - this.bar;
    this.bar = bar;
    if (this.isTouched && this.scroll.isScaled) this.scroll.moveBy(moved);
    else if (Math.abs(bar - this.scroll.bar) < 1) return;
    else this.scroll.moveToBar(bar);
    this.draw();
  }

  /** What a finger began goes on until the list stands still. */
  private touch(): void {
    this.element.addEventListener('touchstart', () => (this.isTouched = true), { passive: true });
    this.element.addEventListener('scrollend', () => {
      if (!this.isTouched) return;
      this.isTouched = false;
      if (this.scroll.isScaled) this.moved();
    });
  }

  /** Where the bar is scaled, a notch of the wheel still moves a few rows. */
  private wheel(event: WheelEvent): void {
    if (!this.scroll.isScaled || event.ctrlKey || event.deltaY === 0) return;
    event.preventDefault();
    const units = [1, ROW_HEIGHT, this.scroll.viewport];
    this.scroll.moveBy(event.deltaY * (units[event.deltaMode] ?? 1));
    this.moved();
  }

  private moved(): void {
    this.bar = this.scroll.bar;
    this.element.scrollTop = this.bar;
    this.draw();
  }

  private selected(): void {
    this.scroll.reveal(this.session.selection.cursor);
    this.moved();
  }

  private key(event: KeyboardEvent): void {
    const { cursor } = this.session.selection;
    const page = this.scroll.page;
    const targets: Record<string, number> = {
      ArrowDown: cursor + 1,
      ArrowUp: cursor - 1,
      PageDown: cursor + page,
      PageUp: cursor - page,
      ' ': cursor + page,
      Home: 0,
      End: this.session.length - 1,
    };
    const target = targets[event.key];
    if (target === undefined || event.altKey) return;
    event.preventDefault();
    this.session.select(target, event.shiftKey);
  }

  /** Draws in the next frame, once. */
  private draw(): void {
    if (this.isDrawing) return;
    this.isDrawing = true;
    requestAnimationFrame(() => {
      this.isDrawing = false;
      this.drawNow();
    });
  }

  private drawNow(): void {
    const { first, count: visible } = this.scroll.visible();
    const shift = first * ROW_HEIGHT - this.scroll.top;
    while (this.rows.length < visible) this.addRow();
    this.rows.forEach((row, position) => {
      row.hidden = position >= visible;
      if (position >= visible) return;
      row.style.transform = `translateY(${shift + position * ROW_HEIGHT}px)`;
      this.drawRow(row, first + position);
    });
    this.markActive(first, visible);
    void this.ask(first, visible);
  }

  private markActive(first: number, visible: number): void {
    const { cursor } = this.session.selection;
    const isVisible = cursor >= first && cursor < first + visible;
    if (isVisible) this.element.setAttribute('aria-activedescendant', `${this.id}-${cursor - first}`);
    else this.element.removeAttribute('aria-activedescendant');
  }

  private addRow(): void {
    const position = this.rows.length;
    const row = h(
      'div',
      {
        class: 'row',
        role: 'row',
        id: `${this.id}-${position}`,
        click: (event: MouseEvent) => this.session.select(Number(row.dataset['index']), event.shiftKey),
      },
      ...COLUMNS.map(([, name]) => h('span', { role: 'gridcell', class: name })),
    );
    this.rows.push(row);
    this.layer.append(row);
  }

  private drawRow(row: HTMLElement, index: number): void {
    const { first, last, cursor } = this.session.selection;
    row.dataset['index'] = String(index);
    // The head is row 1.
    row.setAttribute('aria-rowindex', String(index + 2));
    row.setAttribute('aria-selected', String(index >= first && index <= last));
    row.classList.toggle('cursor', index === cursor);
    const entry = this.pages.get(Math.floor(index / PAGE_ROWS))?.[index % PAGE_ROWS];
    const check = this.session.checks.of(index);
    const texts = cells(index, entry, check);
    row.classList.toggle('broken', entry !== undefined && 'error' in entry);
    row.title = entry && 'error' in entry ? entry.error : '';
    texts.forEach((text, position) => {
      const cell = row.children[position];
      if (cell && cell.textContent !== text) cell.textContent = text;
    });
    const state = row.lastElementChild;
    if (state) state.className = `check ${check}`;
  }

  /** Asks for what is visible and not there; one call at a time, and then for
   * what is visible by then. */
  private async ask(first: number, visible: number): Promise<void> {
    const near = Math.max(0, first - PAGE_ROWS / 2);
    const page =
      this.missing(first, visible) ??
      this.missing(near, Math.min(visible + PAGE_ROWS, this.session.length - near));
    if (this.isAsking || page === undefined) return;
    this.isAsking = true;
    try {
      this.keep(page, await this.session.client.call('rows', page * PAGE_ROWS, PAGE_ROWS));
    } catch (error) {
      // Whoever scrolls on asks another worker.
      if (error instanceof CallError && error.failure.fatal) return;
      const text = textOf(error);
      this.keep(
        page,
        Array.from({ length: PAGE_ROWS }, () => ({ error: text })),
      );
    } finally {
      this.isAsking = false;
    }
    this.draw();
  }

  private missing(first: number, visible: number): number | undefined {
    const last = Math.floor(Math.max(first, first + visible - 1) / PAGE_ROWS);
    for (let page = Math.floor(first / PAGE_ROWS); page <= last; page += 1) {
      if (visible > 0 && !this.pages.has(page)) return page;
    }
    return undefined;
  }

  private keep(page: number, rows: RowOrError[]): void {
    this.pages.set(page, rows);
    const oldest = this.pages.keys().next();
    if (this.pages.size > PAGES_MAX && !oldest.done) this.pages.delete(oldest.value);
  }
}

function headRow(): HTMLElement {
  return h(
    'div',
    { class: 'row head', role: 'row', 'aria-rowindex': 1 },
    ...COLUMNS.map(([label, name]) => h('span', { role: 'columnheader', class: name }, label)),
  );
}

function cells(index: number, entry: RowOrError | undefined, check: CheckState): string[] {
  if (!entry) return [count(index), '·', '·', '·', '·', '·', '·', '·'];
  if ('error' in entry) return [count(index), '–', '–', '–', '–', '–', 'unreadable', CHECKS.damaged];
  const { chunk, offset, storedLen, len, codec, dictionary } = entry;
  const packed = codec === 'zstd-dict' ? `zstd, dictionary ${dictionary}` : codec;
  return [
    count(index),
    String(chunk),
    count(offset),
    size(storedLen),
    size(len),
    ratio(len, storedLen),
    packed,
    CHECKS[check],
  ];
}
