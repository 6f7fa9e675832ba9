// Elements, made of text alone: nothing that a store holds is read as HTML.

type Child = Node | string | false | null | undefined;
type Handler = (event: never) => void;
type Attributes = Record<string, string | number | boolean | Handler | undefined>;

export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name, value as EventListener);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter(isChild));
  return element;
}

function isChild(child: Child): child is Node | string {
  return child !== null && child !== undefined && child !== false;
}

export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren(...children.filter(isChild));
}

let serial = 0;

/** An id that nothing else has. */
export function unique(name: string): string {
  serial += 1;
  return `${name}-${serial}`;
}

/** A label and what it labels. */
export function field(label: string, input: HTMLElement, className = 'field'): HTMLElement {
  input.id ||= unique('field');
  return h('div', { class: className }, h('label', { for: input.id }, label), input);
}

export function button(label: string, click: () => void, className = ''): HTMLButtonElement {
  return h('button', { type: 'button', class: className, click }, label);
}

/** A quiet line that says what went wrong. */
export function notice(text: string, kind: 'error' | 'note' = 'error'): HTMLElement {
  return h('p', { class: `notice ${kind}`, role: kind === 'error' ? 'alert' : 'status' }, text);
}

export function download(parts: BlobPart[], name: string, type = 'application/octet-stream'): void {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const link = h('a', { href: url, download: name });
  link.click();
  // The browser reads it after this turn.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
