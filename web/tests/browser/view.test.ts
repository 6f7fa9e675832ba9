// The page as `zrecord view` serves it, with a store beside it.

import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { rmSync, cpSync } from 'node:fs';
import { mkdtemp, open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, test } from 'node:test';

import { compare, shown } from './facts.ts';
import { showTab } from './browser.ts';
import { COMMAND, expected, goldens, setting, store } from './setting.ts';

const shared = setting();
const running: ChildProcess[] = [];
after(() => running.forEach((program) => program.kill()));

/** Starts the command, and returns the address that it prints. */
async function view(
  folder: string,
  ...options: string[]
): Promise<{ address: string; program: ChildProcess }> {
  const program = spawn(COMMAND, ['view', folder, '--no-browser', ...options], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  running.push(program);
  const [address] = (await once(createInterface(program.stdout), 'line')) as [string];
  return { address, program };
}

for (const folder of [
  store('digits-extended-zstd_dict'),
  store('digits-classic-zstd'),
  ...goldens().filter((golden) => basename(golden) === 'dense_zstd_dict'),
]) {
  test(`the facts of a store: ${basename(folder)}`, async () => {
    const { address, program } = await view(folder);
    const { page, context, check } = await shared.open({}, address);
    const asked: string[] = [];
    context.on('request', (request) => asked.push(request.url()));
    await page.getByRole('heading', { level: 1, name: basename(folder), exact: true }).waitFor();
    await showTab(page, 'Overview');
    await page.getByRole('button', { name: 'Count all' }).click();
    compare(await shown(page), folder);
    await showTab(page, 'Verify');
    await page.getByRole('button', { name: 'Verify', exact: true }).click();
    await page.getByText(/^All [\d,]+ records are intact\.$/).waitFor();
    const { origin } = new URL(address);
    assert.ok(
      asked.every((url) => /^(blob|data):/.test(url) || url.startsWith(`${origin}/`)),
      asked.join(' '),
    );
    check();
    program.kill('SIGINT');
    await once(program, 'exit');
  });
}

test('the record that was asked for, also after a reload', async () => {
  const { record, pixels } = expected<{ record: number; pixels: number[][] }>('digits');
  const { address } = await view(store('digits-classic-raw'), '--record', String(record));
  const { page, check } = await shared.open({}, address);
  for (const again of [false, true]) {
    if (again) await page.reload();
    await page.getByRole('heading', { name: `Record ${record}` }).waitFor();
    const middle = await page
      .locator('.preview canvas')
      .evaluate(
        (canvas) => (canvas as HTMLCanvasElement).getContext('2d')?.getImageData(14, 14, 1, 1).data[0],
      );
    assert.equal(middle, pixels[14]?.[14]);
  }
  check();
});

test('a damaged store is shown as far as it goes', async () => {
  const { address } = await view(store('flipped'));
  const { page, check } = await shared.open({}, address);
  await page.getByRole('heading', { level: 1, name: 'flipped' }).waitFor();
  await showTab(page, 'Verify');
  await page.getByRole('button', { name: 'Verify', exact: true }).click();
  await page.getByText('3 faults found.').waitFor();
  check();
  const other = await view(store('no-header'));
  await page.goto(other.address);
  await page.getByRole('alert').filter({ hasText: 'no-header cannot be opened.' }).waitFor();
  check();
});

test('a file that changes meanwhile is noticed', async () => {
  const folder = join(await mkdtemp(join(tmpdir(), 'zrecord-view-')), 'a store');
  try {
    cpSync(store('million'), folder, { recursive: true });
    const { address } = await view(folder);
    const { page, check } = await shared.open({}, address);
    await page.getByRole('heading', { level: 1, name: 'a store', exact: true }).waitFor();
    await page.locator('.preview [role=tab]').first().waitFor();
    const chunk = await open(join(folder, '0.zr'), 'r+');
    await chunk.write(Buffer.from([1]), 0, 1, 0);
    await chunk.close();
    await page.getByLabel('Go to record').fill('654321');
    await page.getByRole('button', { name: 'Go', exact: true }).click();
    await page.getByRole('alert').filter({ hasText: 'changed on the server' }).waitFor();
    check();
  } finally {
    rmSync(join(folder, '..'), { recursive: true });
  }
});

test('without the token there is no page', async () => {
  const { address } = await view(store('texts'));
  const { page } = await shared.open();
  for (const url of [
    new URL('/', address).href,
    address.replace(/token=(.)/, (_, digit: string) => `token=${digit === '0' ? '1' : '0'}`),
  ]) {
    const response = await page.goto(url);
    assert.equal(response?.status(), 403);
    await page.getByText('The address lacks the token').waitFor();
  }
});

/** A page from elsewhere, whose server has the same address, even with the token. */
test('pages of others get nothing', async () => {
  const { address } = await view(store('texts'));
  const { page } = await shared.open();
  const meta = address.replace(
    /.*#url=(.*)&record.*/,
    (_, url: string) => new URL(url.replace('?', '/meta.zr?'), address).href,
  );
  const reach = (url: string) =>
    page.evaluate(async (asked) => {
      const outcomes = [fetch(asked), fetch(asked, { mode: 'no-cors' })];
      return (await Promise.allSettled(outcomes)).map(({ status }) => status);
    }, url);
  assert.deepEqual(await reach(meta), ['rejected', 'rejected']);
  const { page: own } = await shared.open({}, address);
  const status = await own.evaluate(async (asked) => (await fetch(asked)).status, meta);
  assert.equal(status, 200);
});
