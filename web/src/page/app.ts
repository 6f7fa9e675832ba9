// The page: a place to open a store, or the one that is open.

import type { Source } from '../protocol.ts';
import { CallError, Client, textOf } from './client.ts';
import { fill, h, notice } from './dom.ts';
import { inspector } from './inspector.ts';
import { Session } from './session.ts';
import { fromUrl } from './sources.ts';
import { acceptDrops, Start } from './start.ts';

const main = document.querySelector('main') ?? document.body;
const start = new Start((source) => void open(source));
let client: Client | undefined;

function showStart(message?: string): void {
  client?.close();
  client = undefined;
  document.title = 'Zrecord inspector';
  fill(main, start.element);
  if (message !== undefined) start.say(message);
}

async function open(source: Source): Promise<void> {
  client?.close();
  const mine = new Client(source);
  client = mine;
  fill(main, h('p', { class: 'opening', role: 'status' }, `Opening ${source.name}…`));
  try {
    const opened = await mine.open();
    if (client !== mine) return;
    const session = new Session(mine, source, opened);
    document.title = `${source.name} – Zrecord inspector`;
    fill(main, inspector(session, () => showStart()));
    follow(session);
  } catch (error) {
    if (client === mine) showStart(`${source.name} cannot be opened. ${sentence(error)}`);
  }
}

function sentence(error: unknown): string {
  const isMissing = error instanceof CallError && error.failure.kind === 'io';
  return isMissing ? `${textOf(error)}.` : textOf(error);
}

/** The address names the record that is shown: `#record=17`. */
function follow(session: Session): void {
  const asked = Number(parameters().get('record') ?? 0);
  if (Number.isSafeInteger(asked) && asked > 0) session.select(asked);
  session.on('selection', () => {
    const next = parameters();
    next.set('record', String(session.selection.cursor));
    history.replaceState(null, '', `#${next.toString().replaceAll('%2F', '/').replaceAll('%3A', ':')}`);
  });
}

function parameters(): URLSearchParams {
  return new URLSearchParams(location.hash.slice(1));
}

/** What nobody expected is said, and the page goes on. */
window.addEventListener('unhandledrejection', (event) => {
  event.preventDefault();
  const error: unknown = event.reason;
  const isStopped = error instanceof CallError && error.failure.kind === 'stopped';
  if (!isStopped) main.prepend(notice(`That did not work. ${textOf(error)}`));
});

showStart();
acceptDrops(
  (sources) => {
    if (sources.length !== 1) showStart();
    start.offer(sources);
  },
  (text) => showStart(text),
);
// A link to a store: `#url=https://…/my-store&record=17`.
const linked = parameters().get('url');
if (linked !== null) {
  try {
    void open(fromUrl(linked));
  } catch (error) {
    showStart(textOf(error));
  }
}
