// Many records at once, small.

import { contentOf, type Content } from '../data/content.ts';
import { count, value as shown } from '../data/format.ts';
import { PIXELS_MAX } from '../data/image_head.ts';
import { extent, numbersOf, pictureOf } from '../data/picture.ts';
import type { RecordOrError } from '../protocol.ts';
import { drawCurve, paint, paintImage } from './canvas.ts';
import { textOf } from './client.ts';
import { button, field, fill, h } from './dom.ts';
import { drawn } from './random.ts';
import type { Session } from './session.ts';

const CARDS = 60;
/** Records that one call brings. */
const CARDS_PER_CALL = 6;
/** Of a longer record the beginning is shown. */
const WHOLE_MAX = 4 << 20;
const THUMBNAIL = 192;

export function sheetPanel(session: Session, openRecord: (index: number) => void): HTMLElement {
  const sheet = h('ul', { class: 'sheet' });
  const from = h('input', { type: 'number', min: 0, max: Math.max(0, session.length - 1), value: 0 });
  let run = 0;
  const show = async (indices: number[]) => {
    run += 1;
    const mine = run;
    const cards = indices.map((index) => card(index, openRecord));
    fill(sheet, ...cards.map(({ element }) => element));
    for (let first = 0; first < indices.length && mine === run; first += CARDS_PER_CALL) {
      const part = indices.slice(first, first + CARDS_PER_CALL);
      const records = await ask(session, part);
      records.forEach((record, position) => void fillCard(session, cards[first + position], record));
    }
  };
  const inOrder = () => {
    const first = Math.max(0, Math.min(Number(from.value) || 0, session.length - 1));
    from.value = String(first);
    void show(Array.from({ length: Math.min(CARDS, session.length - first) }, (_, at) => first + at));
  };
  const random = async () => show(await drawn(session, Math.min(CARDS, session.length)));
  const turn = (by: number) => {
    from.value = String(Number(from.value) + by);
    inOrder();
  };
  const form = h(
    'form',
    { class: 'inline' },
    field('From record', from, 'field row-field'),
    h('button', { type: 'submit' }, 'Show'),
  );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    inOrder();
  });
  const tools = [
    button('Previous', () => turn(-CARDS)),
    button('Next', () => turn(CARDS)),
    button('At random', () => void random(), 'quiet'),
  ];
  inOrder();
  return h(
    'section',
    {},
    h('h2', { class: 'hidden' }, 'Contact sheet'),
    h('div', { class: 'toolbar' }, form, ...tools),
    sheet,
  );
}

async function ask(session: Session, indices: number[]): Promise<RecordOrError[]> {
  try {
    return await session.client.call('records', indices, WHOLE_MAX);
  } catch (error) {
    return indices.map(() => ({ error: textOf(error) }));
  }
}

interface Card {
  element: HTMLElement;
  body: HTMLElement;
  caption: HTMLElement;
}

function card(index: number, openRecord: (index: number) => void): Card {
  const body = h('span', { class: 'thumbnail', 'aria-hidden': 'true' });
  const caption = h('span', { class: 'caption' }, h('span', { class: 'hidden' }, 'Record '), count(index));
  const open = h(
    'button',
    { type: 'button', class: 'card-button', click: () => openRecord(index) },
    body,
    caption,
  );
  return { element: h('li', {}, open), body, caption };
}

async function fillCard(session: Session, target: Card | undefined, record: RecordOrError): Promise<void> {
  if (!target) return;
  const fail = (text: string, why: string) => {
    target.element.title = why;
    target.caption.append(`, ${text}`);
    fill(target.body, h('span', { class: 'excerpt broken' }, text));
  };
  if ('error' in record) return fail('damaged', record.error);
  const content = contentOf(session.type, record.bytes, record.length);
  try {
    fill(target.body, await thumbnail(content, record.bytes, record.length));
  } catch (error) {
    fail('cannot be decoded', textOf(error));
  }
}

async function thumbnail(
  content: Content,
  bytes: Uint8Array<ArrayBuffer>,
  length: number,
): Promise<HTMLElement> {
  const { dtype, layout, image, views } = content;
  const excerpt = (text: string) => h('span', { class: 'excerpt' }, text);
  switch (views[0]) {
    case 'picture': {
      const picture = layout && pictureOf(bytes, dtype, layout);
      return picture ? paint(picture, '') : excerpt('too long');
    }
    case 'image': {
      const size = image?.size;
      const fits = size && size.width * size.height <= PIXELS_MAX && bytes.length === length;
      return image && fits
        ? paintImage(bytes, image.type, '', THUMBNAIL)
        : excerpt(`${image?.type}, not decoded`);
    }
    case 'waveform': {
      const numbers = numbersOf(bytes, dtype);
      return drawCurve(numbers, ...extent(numbers), '', [THUMBNAIL, THUMBNAIL / 2]);
    }
    case 'text':
      return excerpt(new TextDecoder().decode(bytes.subarray(0, 240)));
    default:
      return excerpt(values(content, bytes));
  }
}

function values({ dtype }: Content, bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const there = dtype.size === 0 ? 0 : Math.min(24, Math.floor(bytes.length / dtype.size));
  return (
    Array.from({ length: there }, (_, at) => shown(dtype.read(view, at * dtype.size))).join(' ') || 'empty'
  );
}
