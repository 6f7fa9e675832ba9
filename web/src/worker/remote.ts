// Files of a server that answers range requests.
//
// The component reads at once and without waiting, and requests take a while.
// So a read whose bytes are not there yet fails, and is noted; when the call of
// the component is over, all that was noted is asked for, and the call is made
// again. Calls only read, so that does no harm.

import type { Span } from '../data/spans.ts';
import { COMPRESSED, contentRange, lacking } from '../data/http.ts';
import type { BlockSizes, ByteFile } from './blocks.ts';
import { FailureError } from './failure.ts';
import type { FileSource } from './files.ts';

/** A request takes long, and bytes that nobody looks at cost as well. */
const SIZES: BlockSizes = { block: 16 << 10, gap: 2, ahead: 64 };
const PROBE_BYTES = 4096;
/** Files that a store may have; chunks further on are asked for when needed. */
const PROBED = ['meta.zr', 'schema.msgpack', '0.zr', 'dict.zr'];
/** How many requests are under way at once. */
const REQUESTS_MAX = 6;
/** A call that needs more rounds than this does not come to an end. */
const ROUNDS_MAX = 4096;

/** Thrown for bytes that are not there, as an error of the contract. */
const NOT_YET = { tag: 'other', val: 'not read yet' } as const;

/** What tells one state of a file from another. */
interface Version {
  size: number;
  tag: string | null;
}

export class RemoteSource implements FileSource {
  readonly sizes = SIZES;
  private readonly versions = new Map<string, Version | 'absent'>();
  private wanted: (() => Promise<void>)[] = [];
  /** What is noted of each file: a call may miss the same bytes many times. */
  private noted = new Map<string, Span[]>();
  private rounds = 0;

  constructor(private readonly base: string) {}

  /** Looks at each file before the component starts: a server that cannot serve
   * a store is told by its first answers. */
  async probe(): Promise<void> {
    for (const name of PROBED) await this.probeFile(name);
    if (this.versions.get('meta.zr') === 'absent') {
      throw new FailureError('not-a-store', `There is no meta.zr at ${this.base}, so no store.`);
    }
  }

  open(name: string): ByteFile {
    const version = this.versions.get(name);
    if (version === 'absent') throw { tag: 'no-entry' };
    if (!version) {
      if (this.isNoted(name, [])) throw NOT_YET;
      throw this.later(() => this.probeFile(name));
    }
    return {
      size: version.size,
      fetch: (spans, take) => {
        if (this.isNoted(name, spans)) throw NOT_YET;
        throw this.later(async () => {
          take(await Promise.all(spans.map((span) => this.read(name, version, span))));
        });
      },
    };
  }

  async load(): Promise<boolean> {
    const wanted = this.wanted;
    this.wanted = [];
    this.noted.clear();
    this.rounds = wanted.length === 0 ? 0 : this.rounds + 1;
    if (this.rounds > ROUNDS_MAX) throw new FailureError('page', 'The server is asked for ever more.');
    while (wanted.length > 0) {
      await Promise.all(wanted.splice(0, REQUESTS_MAX).map((work) => work()));
    }
    return this.rounds > 0;
  }

  /** Notes what is to be done, and returns what is to be thrown meanwhile. */
  private later(work: () => Promise<void>): typeof NOT_YET {
    this.wanted.push(work);
    return NOT_YET;
  }

  private isNoted(name: string, spans: Span[]): boolean {
    const noted = this.noted.get(name);
    const lies = (span: Span) => (within: Span) =>
      within.offset <= span.offset && span.offset + span.length <= within.offset + within.length;
    const isNoted = noted !== undefined && spans.every((span) => noted.some(lies(span)));
    if (!isNoted) this.noted.set(name, [...(noted ?? []), ...spans]);
    return isNoted;
  }

  private async probeFile(name: string): Promise<void> {
    const answer = await this.request(name, { offset: 0, length: PROBE_BYTES });
    this.versions.set(name, answer === 'absent' ? answer : answer.version);
  }

  private async read(name: string, version: Version, span: Span): Promise<Uint8Array> {
    const answer = await this.request(name, span);
    if (answer === 'absent' || answer.version.size !== version.size || answer.version.tag !== version.tag) {
      const text = `${name} changed on the server since it was opened. Open the store again.`;
      throw new FailureError('page', text);
    }
    if (answer.bytes.length !== span.length)
      throw new FailureError('page', `${name}: the server cut its answer short.`);
    return answer.bytes;
  }

  private async request(name: string, { offset, length }: Span) {
    const cancel = new AbortController();
    const headers = { range: `bytes=${offset}-${offset + length - 1}` };
    let response: Response;
    try {
      // Not from the browser's cache, which may mix two states of a file.
      response = await fetch(this.url(name), { headers, cache: 'no-store', signal: cancel.signal });
    } catch {
      throw await this.explained(name);
    }
    if (response.status === 404 || response.status === 410) return 'absent';
    const range = contentRange(response.headers);
    const tag = response.headers.get('ETag') ?? response.headers.get('Last-Modified');
    // An empty file has no first byte to answer with.
    if (response.status === 416 && range?.size === 0) {
      return { version: { size: 0, tag }, bytes: new Uint8Array() };
    }
    const reason = lacking(response.status, response.headers);
    if (reason !== undefined || !range) {
      // Whatever it would send, nobody waits for it.
      cancel.abort();
      throw new FailureError('page', `${name}: ${reason}`);
    }
    const bytes = await bodyOf(name, response);
    if (bytes.length !== range.length) throw new FailureError('page', `${name}: ${COMPRESSED}.`);
    return { version: { size: range.size, tag }, bytes };
  }

  /** Why there was no answer: pages are not told. A browser also gives up on a
   * part that is compressed, but a question without a body gets through. */
  private async explained(name: string): Promise<FailureError> {
    try {
      const { headers } = await fetch(this.url(name), { method: 'HEAD', cache: 'no-store' });
      const encoding = headers.get('Content-Encoding') ?? 'not told to this page';
      const text = `${name}: the server answers, but not with a part of the file. It seems to compress what it sends (Content-Encoding: ${encoding}); it must send the files of a store as they are.`;
      return new FailureError('page', text);
    } catch {
      const text = `${this.base} cannot be reached from this page: there is no such server, or it does not allow pages from elsewhere (Access-Control-Allow-Origin).`;
      return new FailureError('page', text);
    }
  }

  private url(name: string): string {
    const url = new URL(this.base);
    url.pathname = `${url.pathname.replace(/\/$/, '')}/${name}`;
    url.hash = '';
    return url.href;
  }
}

async function bodyOf(name: string, response: Response): Promise<Uint8Array> {
  try {
    return new Uint8Array(await response.arrayBuffer());
  } catch {
    throw new FailureError('page', `${name}: the server broke off its answer.`);
  }
}
