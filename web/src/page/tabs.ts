// Tabs, as the patterns of ARIA have them: arrows move, one panel is shown.

import { h, unique } from './dom.ts';

export interface Tab {
  label: string;
  /** Makes the panel's content when it is first shown. */
  make(): HTMLElement;
  /** Called whenever it is shown. */
  shown?(): void;
}

export class Tabs {
  readonly list: HTMLElement;
  readonly panels: HTMLElement;
  private readonly buttons: HTMLButtonElement[];
  private readonly bodies: HTMLElement[];
  private current = -1;

  constructor(
    label: string,
    private readonly tabs: Tab[],
    className = 'tabs',
  ) {
    const names = tabs.map(() => unique('tab'));
    this.buttons = tabs.map((tab, position) =>
      h(
        'button',
        {
          type: 'button',
          role: 'tab',
          id: names[position],
          'aria-controls': `${names[position]}-panel`,
          click: () => this.show(position),
          keydown: (event: KeyboardEvent) => this.move(event),
        },
        tab.label,
      ),
    );
    this.bodies = tabs.map((_, position) =>
      h('div', {
        role: 'tabpanel',
        id: `${names[position]}-panel`,
        'aria-labelledby': names[position],
        hidden: true,
        class: 'panel',
        tabindex: className.includes('small') ? 0 : undefined,
      }),
    );
    this.list = h('div', { role: 'tablist', 'aria-label': label, class: className }, ...this.buttons);
    this.panels = h('div', { class: 'panels' }, ...this.bodies);
  }

  show(position: number): void {
    const [tab, body] = [this.tabs[position], this.bodies[position]];
    if (!tab || !body) return;
    this.current = position;
    this.buttons.forEach((button, at) => {
      button.setAttribute('aria-selected', String(at === position));
      button.tabIndex = at === position ? 0 : -1;
    });
    this.bodies.forEach((other, at) => (other.hidden = at !== position));
    if (!body.hasChildNodes()) body.append(tab.make());
    tab.shown?.();
  }

  private move(event: KeyboardEvent): void {
    const last = this.tabs.length - 1;
    const steps: Record<string, number> = {
      ArrowRight: this.current === last ? 0 : this.current + 1,
      ArrowLeft: this.current === 0 ? last : this.current - 1,
      Home: 0,
      End: last,
    };
    const to = steps[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.show(to);
    this.buttons[to]?.focus();
  }
}
