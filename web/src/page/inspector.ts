// An open store.

import { shape } from '../data/format.ts';
import { parseDtype } from '../data/dtype.ts';
import type { Opened } from '../protocol.ts';
import { button, h, notice } from './dom.ts';
import { factsStrip } from './facts.ts';
import { overviewPanel } from './overview.ts';
import { recordsPanel } from './records.ts';
import { samplerPanel } from './sampler.ts';
import { Scan } from './scan.ts';
import type { Session } from './session.ts';
import { sheetPanel } from './sheet.ts';
import { Tabs } from './tabs.ts';
import { textOf } from './client.ts';
import { verifyPanel } from './verify.ts';

export function inspector(session: Session, another: () => void): HTMLElement {
  const { opened, source } = session;
  const scan = new Scan(session);
  const openRecord = (index: number) => {
    tabs.show(0);
    session.select(index);
  };
  const tabs = new Tabs('Parts of the store', [
    { label: 'Records', make: () => recordsPanel(session) },
    { label: 'Overview', make: () => overviewPanel(session, scan) },
    { label: 'Contact sheet', make: () => sheetPanel(session, openRecord) },
    { label: 'Sampler', make: () => samplerPanel(session, openRecord) },
    { label: 'Verify', make: () => verifyPanel(session, openRecord) },
  ]);
  const element = h(
    'div',
    { class: 'inspector' },
    h(
      'header',
      { class: 'masthead' },
      h('div', {}, h('h1', {}, source.name), h('p', { class: 'meta' }, subtitle(opened))),
      button('Open another…', another),
    ),
    ...opened.troubles.map((trouble) => notice(`Shown as far as it can be read. ${trouble}`)),
    factsStrip(session),
    tabs.list,
    tabs.panels,
  );
  tabs.show(0);
  void begin(session, scan, element);
  return element;
}

/** A first look, and then everything, where reading costs nothing. */
async function begin(session: Session, scan: Scan, element: HTMLElement): Promise<void> {
  const attempt = async (work: () => Promise<void>, otherwise: string) => {
    try {
      await work();
    } catch (error) {
      element.querySelector('.facts')?.before(notice(`${otherwise} ${textOf(error)}`));
    }
  };
  await attempt(async () => {
    await scan.look();
    if (session.source.kind === 'files') await scan.run();
  }, 'Not all records could be counted.');
  await attempt(() => scan.finish(), 'What the chunks hold could not be counted.');
}

function subtitle({ format, version, schema }: Opened): string {
  const parts = [`${format} format, version ${version}`];
  if (schema) {
    const dtype = parseDtype(schema.dtype);
    parts.push(`${schema.kind} ${dtype?.name ?? schema.dtype}`);
    if (schema.kind === 'dense' || schema.itemShape.length > 0) parts.push(shape(schema.itemShape));
    parts.push(schema.codec);
  } else parts.push('untyped');
  return parts.join(' · ');
}
