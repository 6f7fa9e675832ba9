// Files of a server that answers range requests. The component reads at once
// and without waiting, so requests are synchronous, which a worker may do.
//
// Before it starts, `probe` asks for the first bytes of each file: only there
// can a server that would send everything be stopped.

import type { Span } from '../data/spans.ts';
import { contentRange, lacking } from '../data/http.ts';
import type { BlockSizes, ByteFile } from './blocks.ts';
import { FailureError } from './failure.ts';
import type { FileSource } from './files.ts';

/** A request takes long, and bytes that nobody looks at cost as well. */
const SIZES: BlockSizes = { block: 16 << 10, gap: 2, ahead: 64 };
const PROBE_BYTES = 4096;
/** Files that a store may have; chunks further on are asked for when needed. */
const PROBED = ['meta.zr', 'schema.msgpack', '0.zr', 'dict.zr'];

/** What tells one state of a file from another. */
interface Version {
  size: number;
  tag: string | null;
}

export class RemoteSource implements FileSource {
  readonly sizes = SIZES;
  bytes = 0;
  reads = 0;
  private readonly versions = new Map<string, Version | 'absent'>();

  constructor(private readonly base: string) {}

  async probe(): Promise<void> {
    for (const name of PROBED) this.versions.set(name, await this.probeFile(name));
    if (this.versions.get('meta.zr') === 'absent') {
      throw new FailureError('not-a-store', `There is no meta.zr at ${this.base}, so no store.`);
    }
  }

  private async probeFile(name: string): Promise<Version | 'absent'> {
    const cancel = new AbortController();
    const range = `bytes=0-${PROBE_BYTES - 1}`;
    let response: Response;
    try {
      const headers = { range };
      response = await fetch(this.url(name), { headers, cache: 'no-store', signal: cancel.signal });
    } catch {
      const text = `${this.base} cannot be reached from this page: there is no such server, or it does not allow pages from elsewhere (Access-Control-Allow-Origin).`;
      throw new FailureError('page', text);
    }
    this.reads += 1;
    if (response.status === 404 || response.status === 410) return 'absent';
    // An empty file has no first byte to answer with.
    if (response.status === 416 && contentRange(response.headers)?.size === 0) {
      return { size: 0, tag: versionTag(response.headers) };
    }
    const reason = lacking(response.status, response.headers);
    if (reason !== undefined) {
      cancel.abort();
      throw new FailureError('page', `${name}: ${reason}`);
    }
    this.bytes += (await response.arrayBuffer()).byteLength;
    const size = contentRange(response.headers)?.size ?? 0;
    return { size, tag: versionTag(response.headers) };
  }

  open(name: string): ByteFile {
    const version = this.versions.get(name) ?? this.discover(name);
    if (version === 'absent') throw { tag: 'no-entry' };
    return { size: version.size, fetch: (spans) => spans.map((span) => this.fetch(name, span)) };
  }

  private discover(name: string): Version | 'absent' {
    const { status, headers } = this.request(name, { offset: 0, length: 1 });
    const size = contentRange(headers)?.size;
    if (status === 404 || status === 410) this.versions.set(name, 'absent');
    else if (size === undefined) throw { tag: 'other', val: lacking(status, headers) ?? 'no size' };
    else this.versions.set(name, { size, tag: versionTag(headers) });
    return this.versions.get(name) ?? 'absent';
  }

  private fetch(name: string, span: Span): Uint8Array {
    if (span.length === 0) return new Uint8Array();
    const { status, headers, body } = this.request(name, span);
    const reason = lacking(status, headers);
    if (reason !== undefined) throw { tag: 'other', val: reason };
    const version = this.versions.get(name);
    const found = { size: contentRange(headers)?.size, tag: versionTag(headers) };
    if (version !== 'absent' && (version?.size !== found.size || version?.tag !== found.tag)) {
      throw { tag: 'other', val: 'it changed on the server since it was opened; open it again' };
    }
    if (body.byteLength !== span.length) throw { tag: 'other', val: 'the server cut its answer short' };
    return new Uint8Array(body);
  }

  private request(name: string, { offset, length }: Span) {
    const request = new XMLHttpRequest();
    request.open('GET', this.url(name), false);
    request.responseType = 'arraybuffer';
    request.setRequestHeader('Range', `bytes=${offset}-${offset + length - 1}`);
    try {
      request.send();
    } catch {
      throw { tag: 'other', val: 'the server did not answer' };
    }
    const headers = { get: (header: string) => request.getResponseHeader(header) };
    const body = (request.response as ArrayBuffer | null) ?? new ArrayBuffer(0);
    this.reads += 1;
    this.bytes += body.byteLength;
    return { status: request.status, headers, body };
  }

  private url(name: string): string {
    const url = new URL(this.base);
    url.pathname = `${url.pathname.replace(/\/$/, '')}/${name}`;
    url.hash = '';
    return url.href;
  }
}

function versionTag(headers: { get(name: string): string | null }): string | null {
  return headers.get('ETag') ?? headers.get('Last-Modified');
}
