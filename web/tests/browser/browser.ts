// A headless Chromium with the page in it, and what a person does there.

import { existsSync } from 'node:fs';
import { basename, delimiter, join } from 'node:path';

import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome'];

function installed(): string | undefined {
  const folders = (process.env['PATH'] ?? '').split(delimiter);
  return NAMES.flatMap((name) => folders.map((folder) => join(folder, name))).find((path) =>
    existsSync(path),
  );
}

export async function launch(): Promise<Browser> {
  const executablePath = process.env['ZRECORD_CHROMIUM'] ?? installed();
  if (!executablePath) throw new Error('Chromium is needed: install it, or name it in ZRECORD_CHROMIUM');
  // Tests drag the scrollbar, so it must be there. In containers there is no
  // sandbox within the sandbox.
  const args = ['--no-sandbox', '--disable-dev-shm-usage'];
  return chromium.launch({ executablePath, args, ignoreDefaultArgs: ['--hide-scrollbars'] });
}

/** Errors of the page are errors of the test. */
export async function newPage(
  context: BrowserContext,
  url: string,
): Promise<{ page: Page; errors: string[] }> {
  const page = await context.newPage();
  const errors: string[] = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => {
    // A request that fails is logged by the browser itself.
    if (message.type() === 'error' && !/Failed to load resource|CORS policy/.test(message.text())) {
      errors.push(message.text());
    }
  });
  await page.goto(url);
  return { page, errors };
}

/** Drops a folder as a person does: the browser makes the drag's events. */
export async function drop(page: Page, folders: string[]): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const data = { items: [], files: folders, dragOperationsMask: 1 };
  for (const type of ['dragEnter', 'dragOver', 'drop'] as const) {
    await session.send('Input.dispatchDragEvent', { type, x: 200, y: 300, data });
  }
  await session.detach();
}

export async function dropAndWait(page: Page, folder: string): Promise<void> {
  await drop(page, [folder]);
  await page.getByRole('heading', { level: 1, name: basename(folder), exact: true }).waitFor();
}

export async function showTab(page: Page, name: string): Promise<void> {
  await page.getByRole('tab', { name, exact: true }).click();
}
