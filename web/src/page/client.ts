// The worker as the page sees it: calls that are promised. It may die, by a
// trap or because a call was stopped; the next call begins another one.

import type { Answer, Calls, CallName, Failure, Opened, Request, Source } from '../protocol.ts';

export class CallError extends Error {
  constructor(readonly failure: Failure) {
    super(failure.text);
  }
}

interface Pending {
  resolve(value: unknown): void;
  reject(error: CallError): void;
}

const STOPPED: Failure = { kind: 'stopped', text: 'Stopped.', fatal: true };

export class Client {
  private worker: Worker | undefined;
  private readonly pending = new Map<number, Pending>();
  private serial = 0;
  private isClosed = false;

  constructor(private readonly source: Source) {}

  open(): Promise<Opened> {
    this.kill();
    return this.begin();
  }

  async call<Name extends CallName>(
    name: Name,
    ...parameters: Parameters<Calls[Name]>
  ): Promise<ReturnType<Calls[Name]>> {
    if (this.isClosed) throw new CallError(STOPPED);
    // A new worker answers `open` before anything else.
    if (!this.worker) this.begin().catch(() => undefined);
    return this.post(name, parameters);
  }

  /** Ends the worker for good. */
  close(): void {
    this.isClosed = true;
    this.kill();
  }

  /** Ends the worker, and with it whatever it is doing. */
  kill(failure: Failure = STOPPED): void {
    this.worker?.terminate();
    this.worker = undefined;
    const pending = [...this.pending.values()];
    this.pending.clear();
    for (const { reject } of pending) reject(new CallError(failure));
  }

  private begin(): Promise<Opened> {
    const worker = newWorker();
    this.worker = worker;
    worker.addEventListener('message', ({ data }: MessageEvent<Answer>) => this.settle(data));
    worker.addEventListener('error', (event) => {
      event.preventDefault();
      if (worker !== this.worker) return;
      this.kill({ kind: 'trap', text: `The worker failed (${event.message}).`, fatal: true });
    });
    return this.post('open', [this.source]);
  }

  private post<Name extends CallName>(
    name: Name,
    parameters: Parameters<Calls[Name]>,
  ): Promise<ReturnType<Calls[Name]>> {
    this.serial += 1;
    const id = this.serial;
    const request: Request<Name> = { id, name, parameters };
    return new Promise<unknown>((resolve, reject) => {
      this.pending.set(id, { resolve, reject });
      this.worker?.postMessage(request);
    }) as Promise<ReturnType<Calls[Name]>>;
  }

  private settle(answer: Answer): void {
    const pending = this.pending.get(answer.id);
    this.pending.delete(answer.id);
    if ('value' in answer) return pending?.resolve(answer.value);
    pending?.reject(new CallError(answer.failure));
    if (answer.failure.fatal) this.kill(answer.failure);
  }
}

/** In the single file the worker's text lies in the page; else beside it. */
function newWorker(): Worker {
  const inlined = document.getElementById('worker')?.textContent;
  const url = inlined
    ? URL.createObjectURL(new Blob([inlined], { type: 'text/javascript' }))
    : new URL('worker.js', document.baseURI).href;
  return new Worker(trusted(url));
}

interface TrustedTypes {
  createPolicy(
    name: string,
    rules: { createScriptURL(url: string): string },
  ): {
    createScriptURL(url: string): string;
  };
}

const policy = (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy('zrecord', {
  createScriptURL: (url) => url,
});

/** The only script that the page ever starts. */
function trusted(url: string): string {
  return policy ? policy.createScriptURL(url) : url;
}

export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
