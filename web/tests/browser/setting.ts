// What all browser tests need: the built page on a server, a browser, stores,
// and the native command.

import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { after, before } from 'node:test';

import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';

import { launch, newPage } from './browser.ts';
import { TestServer } from './server.ts';

/** Made by `stores.py`. */
export const STORES = resolve(process.env['ZRECORD_STORES'] ?? '../target/web-stores');
export const GOLDEN = resolve('../tests/golden/loaderx-0.9.4');
export const COMMAND = resolve(process.env['ZRECORD_COMMAND'] ?? '../target/debug/zrecord');

export const store = (name: string) => join(STORES, name);

export function goldens(): string[] {
  return readdirSync(GOLDEN)
    .filter((name) => existsSync(join(GOLDEN, name, 'meta.zr')))
    .map((name) => join(GOLDEN, name));
}

/** What `stores.py` computed. */
export function expected<Value>(name: string): Value {
  const all = JSON.parse(readFileSync(join(STORES, 'expected.json'), 'utf8')) as Record<string, Value>;
  const value = all[name];
  if (value === undefined) throw new Error(`stores.py says nothing of ${name}`);
  return value;
}

/** What the native command says, as JSON; also when it finds faults. */
export function native(job: 'inspect' | 'verify', folder: string): Record<string, unknown> {
  let text: string;
  try {
    text = execFileSync(COMMAND, [job, '--json', folder], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
  } catch (error) {
    text = (error as { stdout: string }).stdout;
  }
  return JSON.parse(text) as Record<string, unknown>;
}

export interface Setting {
  browser: Browser;
  url: string;
  server: TestServer;
  /** A fresh page; `check` fails on anything that it has complained of. */
  open(
    options?: BrowserContextOptions,
    url?: string,
  ): Promise<{ page: Page; context: BrowserContext; check(): void }>;
}

/** One browser for all tests of a file. */
export function setting(): Setting {
  const server = new TestServer(resolve('dist'));
  const shared = { server } as Setting;
  before(async () => {
    if (!existsSync(join(STORES, 'expected.json')))
      throw new Error(`there are no stores in ${STORES}: run stores.py`);
    shared.url = await server.listen();
    shared.browser = await launch();
  });
  after(async () => {
    await shared.browser?.close();
    server.close();
  });
  shared.open = async (options = {}, url = shared.url) => {
    const context = await shared.browser.newContext({ viewport: { width: 1280, height: 860 }, ...options });
    const { page, errors } = await newPage(context, url);
    const check = () => {
      if (errors.length > 0) throw new Error(`the page complained: ${errors.join('; ')}`);
    };
    return { page, context, check };
  };
  return shared;
}
