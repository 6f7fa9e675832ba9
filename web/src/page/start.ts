// The page before a store is open: where to drop one, pick one, or say where
// one is.

import type { Source } from '../protocol.ts';
import { textOf } from './client.ts';
import { button, field, fill, h, notice } from './dom.ts';
import { dropped, fromUrl, picked } from './sources.ts';

type Open = (source: Source) => void;

const NO_STORE = 'There is no Zrecord store in it: a store is a folder with a meta.zr in it.';

export class Start {
  readonly element: HTMLElement;
  private readonly message = h('div', { class: 'message' });

  constructor(private readonly open: Open) {
    const input = h('input', {
      type: 'file',
      webkitdirectory: true,
      class: 'hidden',
      tabindex: -1,
      'aria-label': 'Folder of a store',
    });
    input.addEventListener('change', () => {
      this.offer(picked(input.files ?? []));
      input.value = '';
    });
    this.element = h(
      'div',
      { class: 'start' },
      h('h1', {}, 'Look into a Zrecord store'),
      h(
        'p',
        { class: 'lead' },
        'See what a dataset holds: its records, how they are packed, and whether they are intact.',
      ),
      h(
        'div',
        { class: 'drop' },
        h('p', { class: 'drop-title' }, 'Drop the folder of a store here'),
        h('p', { class: 'meta' }, 'or'),
        button('Choose folder…', () => input.click(), 'primary'),
        input,
      ),
      this.message,
      this.urlForm(),
      h(
        'p',
        { class: 'promise' },
        'Nothing is uploaded. Only the parts that you look at are read, in this page, also offline.',
      ),
    );
  }

  say(text: string): void {
    fill(this.message, notice(text));
  }

  private urlForm(): HTMLElement {
    const input = h('input', {
      type: 'url',
      placeholder: 'https://…/my-store',
      required: true,
      spellcheck: 'false',
    });
    const form = h(
      'form',
      { class: 'inline url' },
      field('Or its address', input),
      h('button', { type: 'submit' }, 'Open'),
    );
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      try {
        this.open(fromUrl(input.value));
      } catch (error) {
        this.say(textOf(error));
      }
    });
    return form;
  }

  /** One store is opened, of several one is chosen. */
  offer(sources: Source[]): void {
    const [only] = sources;
    if (!only) return this.say(NO_STORE);
    if (sources.length === 1) return this.open(only);
    const items = sources.map((source) =>
      h(
        'li',
        {},
        button(source.name, () => this.open(source), 'link'),
      ),
    );
    fill(
      this.message,
      h(
        'section',
        { class: 'card' },
        h('h2', {}, `${sources.length} stores are in it`),
        h('ul', { class: 'choices' }, ...items),
      ),
    );
    this.message.querySelector('button')?.focus();
  }
}

/** Folders can be dropped anywhere on the page. */
export function acceptDrops(use: (sources: Source[]) => void, fail: (text: string) => void): void {
  let depth = 0;
  const over = (by: number) => {
    depth = Math.max(0, depth + by);
    document.body.classList.toggle('dragging', depth > 0);
  };
  const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes('Files') ?? false;
  document.addEventListener('dragenter', (event) => hasFiles(event) && over(1));
  document.addEventListener('dragleave', (event) => hasFiles(event) && over(-1));
  document.addEventListener('dragover', (event) => hasFiles(event) && event.preventDefault());
  document.addEventListener('drop', (event) => {
    if (!event.dataTransfer || !hasFiles(event)) return;
    event.preventDefault();
    over(-depth);
    dropped(event.dataTransfer).then(use, (error: unknown) => fail(textOf(error)));
  });
}
