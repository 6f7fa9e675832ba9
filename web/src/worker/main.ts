// The worker: the component, the files it was lent, and the calls of the page.

import core from '../../generated/reader.core.wasm';
import core2 from '../../generated/reader.core2.wasm';
import core3 from '../../generated/reader.core3.wasm';
import { instantiate, type ImportObject, type Root } from '../../generated/reader.js';
import type { Answer, Calls, CallName, Opened, Request, Source } from '../protocol.ts';
import { BlockCache } from './blocks.ts';
import { failureOf, FailureError } from './failure.ts';
import * as files from './files.ts';
import { LocalSource } from './local.ts';
import { RemoteSource } from './remote.ts';
import { Store } from './store.ts';

const MODULES: Readonly<Record<string, BufferSource>> = {
  'reader.core.wasm': core,
  'reader.core2.wasm': core2,
  'reader.core3.wasm': core3,
};

function load(): Root {
  const module = (name: string) => new WebAssembly.Module(MODULES[name] ?? new Uint8Array());
  // The generated code looks for the name without the version, its types say
  // the one with.
  const imports = { 'zrecord:store/files': files, 'zrecord:store/files@0.1.0': files };
  return instantiate(module, imports as unknown as ImportObject);
}

const CACHE_BYTES = 32 << 20;
const cache = new BlockCache(CACHE_BYTES);
let source: files.FileSource | undefined;
let store: Store | undefined;

async function open(from: Source): Promise<Opened> {
  if (from.kind === 'url') {
    const remote = new RemoteSource(from.base);
    source = remote;
    await remote.probe();
  } else {
    source = new LocalSource(from.files);
  }
  const root = load();
  const directory = new files.Directory(source, cache);
  const result = await settled(() => Store.open(root, directory));
  store = result.store;
  return result.opened;
}

/** Makes a call again until everything that it reads is there. */
async function settled<Value>(call: () => Value): Promise<Value> {
  // Where nothing is waited for, a call is made once.
  cache.hold(source?.load !== undefined);
  try {
    for (;;) {
      const outcome = attempt(call);
      if (await source?.load?.()) continue;
      if ('error' in outcome) throw outcome.error;
      return outcome.value;
    }
  } finally {
    cache.hold(false);
  }
}

function attempt<Value>(call: () => Value): { value: Value } | { error: unknown } {
  try {
    return { value: call() };
  } catch (error) {
    return { error };
  }
}

/** Runs a call. Nothing else runs meanwhile: calls come one after the other. */
async function answer<Name extends CallName>({ name, parameters }: Request<Name>): Promise<unknown> {
  if (name === 'open') return open(...(parameters as Parameters<Calls['open']>));
  const opened = store;
  if (!opened) throw new FailureError('page', 'No store is open.');
  const call = opened[name as keyof Store] as (...parameters: unknown[]) => unknown;
  return settled(() => call.apply(opened, parameters));
}

/** Buffers of records are handed over, not copied. */
function buffersOf(value: unknown): Transferable[] {
  const values: unknown[] = Array.isArray(value) ? value : [value];
  const buffers = values.map((one) => (one as { bytes?: unknown } | null)?.bytes);
  return buffers.flatMap((bytes) => (bytes instanceof Uint8Array ? [bytes.buffer as ArrayBuffer] : []));
}

let queue = Promise.resolve();
self.addEventListener('message', ({ data }: MessageEvent<Request>) => {
  queue = queue.then(async () => {
    const post = (message: Answer, buffers: Transferable[] = []) =>
      (self as unknown as Worker).postMessage(message, buffers);
    try {
      const value = await answer(data);
      post({ id: data.id, value }, buffersOf(value));
    } catch (error) {
      post({ id: data.id, failure: failureOf(error) });
    }
  });
});
