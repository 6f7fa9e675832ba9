// The records: a table, the one that is selected beside it, and what can be
// done with several.

import { count, counted } from '../data/format.ts';
import { button, field, fill, h } from './dom.ts';
import { exportSelection } from './export.ts';
import { Preview } from './preview.ts';
import { surprise } from './random.ts';
import type { Session } from './session.ts';
import { RecordTable } from './table.ts';
import { textOf } from './client.ts';

export function recordsPanel(session: Session): HTMLElement {
  if (session.length === 0) return h('p', { class: 'empty' }, 'This store has no records.');
  const table = new RecordTable(session);
  const preview = new Preview(session);
  const panel = h(
    'div',
    { class: 'records' },
    h('div', { class: 'toolbar' }, goTo(session), surpriseButton(session), selectionTools(session)),
    h('div', { class: 'split' }, table.element, preview.element),
  );
  void preview.show();
  return panel;
}

function goTo(session: Session): HTMLElement {
  const input = h('input', {
    type: 'number',
    min: 0,
    max: Math.max(0, session.length - 1),
    inputmode: 'numeric',
    placeholder: '0',
    required: true,
  });
  const form = h(
    'form',
    { class: 'inline', 'aria-label': 'Go to a record' },
    field('Go to record', input, 'field row-field'),
    h('button', { type: 'submit' }, 'Go'),
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    session.select(Number(input.value));
  });
  return form;
}

function surpriseButton(session: Session): HTMLElement {
  const surprised = async () => session.select(await surprise(session));
  return button('Surprise me', () => void surprised(), 'quiet');
}

/** The selection in words, and its export. */
function selectionTools(session: Session): HTMLElement {
  const status = h('span', { class: 'status', role: 'status' });
  const save = button('Export .npy', () => void run());
  const show = () => {
    const { first, last } = session.selection;
    status.textContent =
      first === last
        ? '1 record; Shift selects more'
        : `${counted(last - first + 1, 'record')}, ${count(first)} to ${count(last)}`;
  };
  const run = async () => {
    save.disabled = true;
    try {
      status.textContent = await exportSelection(session, (text) => (status.textContent = text));
    } catch (error) {
      status.textContent = textOf(error);
    } finally {
      save.disabled = false;
    }
  };
  session.on('selection', show);
  show();
  const tools = h('div', { class: 'inline end' });
  fill(tools, status, save);
  return tools;
}
