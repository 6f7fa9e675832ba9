// The page: a place to open a store, or the one that is open.

import type { Source } from '../protocol.ts';
import { CallError, Client, textOf } from './client.ts';
import { button, fill, h, notice } from './dom.ts';
import { inspector } from './inspector.ts';
import { Session } from './session.ts';
import { readAddress } from '../data/address.ts';
import { fromUrl } from './sources.ts';
import { acceptDrops, Start } from './start.ts';

const main = document.querySelector('main') ?? document.body;
const start = new Start((source) => void open(source));
let client: Client | undefined;
/** What the address asked for when the page was opened; for its first store. */
const asked = readAddress(location.hash);

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
  const status = h('p', { role: 'status' }, `Opening ${source.name}…`);
  fill(
    main,
    h(
      'div',
      { class: 'opening' },
      status,
      button('Cancel', () => showStart()),
    ),
  );
  try {
    const opened = await mine.open();
    if (client !== mine) return;
    const session = new Session(mine, source, opened);
    document.title = `${source.name} – Zrecord inspector`;
    fill(
      main,
      inspector(session, () => showStart()),
    );
    follow(session);
  } catch (error) {
    if (client === mine) showStart(`${source.name} cannot be opened. ${sentence(error)}`);
  }
}

function sentence(error: unknown): string {
  const isMissing = error instanceof CallError && error.failure.kind === 'io';
  return isMissing ? `${textOf(error)}.` : textOf(error);
}

/** The address names the record that is shown, and the store if it has one:
 * `#url=https://…/my-store&record=17`. */
function follow(session: Session): void {
  const { source } = session;
  const name = () => {
    const url = source.kind === 'url' ? `url=${source.base}&` : '';
    history.replaceState(null, '', `#${url}record=${session.selection.cursor}`);
  };
  session.select(asked.record);
  asked.record = 0;
  name();
  session.on('selection', name);
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
if (asked.url !== undefined) {
  try {
    void open(fromUrl(asked.url));
  } catch (error) {
    showStart(textOf(error));
  }
}
