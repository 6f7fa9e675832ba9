// Servers for the tests: the built page, and stores with and without what a
// server of stores must do.

import { createReadStream, statSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { extname, join, normalize } from 'node:path';
import { createGzip } from 'node:zlib';

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript',
  '.css': 'text/css',
};

export interface Behaviour {
  /** Answers 200 with everything, as Python's `http.server` does. */
  ignoresRanges?: boolean;
  /** Lets no page of another origin read Content-Range. */
  hidesRange?: boolean;
  /** Answers pages of other origins at all. */
  isClosed?: boolean;
  /** Compresses what it sends; pages of other origins may be told. */
  compresses?: 'told' | 'untold';
  /** Takes requests and never answers. */
  stalls?: boolean;
  /** What the ETag says, which a test may change. */
  tag?: string;
}

export class TestServer {
  bytes = 0;
  requests: string[] = [];
  behaviour: Behaviour = {};
  private readonly server = createServer((request, response) => this.answer(request, response));

  constructor(private readonly root: string) {}

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.server.closeAllConnections();
    this.server.close();
  }

  forget(): void {
    this.bytes = 0;
    this.requests = [];
  }

  private answer(request: IncomingMessage, response: ServerResponse): void {
    const { isClosed, hidesRange, tag, compresses } = this.behaviour;
    const path = normalize(decodeURIComponent(new URL(request.url ?? '/', 'http://x').pathname));
    const file = join(this.root, path === '/' ? 'index.html' : path);
    if (!isClosed) response.setHeader('Access-Control-Allow-Origin', '*');
    response.setHeader('Access-Control-Allow-Headers', 'Range');
    if (!hidesRange)
      response.setHeader(
        'Access-Control-Expose-Headers',
        `Content-Range, ETag${compresses === 'told' ? ', Content-Encoding' : ''}`,
      );
    if (request.method === 'OPTIONS') return void response.writeHead(204).end();
    if (this.behaviour.stalls) return;
    const stat = statSync(file, { throwIfNoEntry: false });
    this.requests.push(`${path} ${request.headers.range ?? ''}`);
    if (!stat?.isFile()) return void response.writeHead(404).end();
    if (tag) response.setHeader('ETag', tag);
    if (compresses) response.setHeader('Content-Encoding', 'gzip');
    response.setHeader('Content-Type', TYPES[extname(file)] ?? 'application/octet-stream');
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '');
    if (!range || this.behaviour.ignoresRanges) {
      response.setHeader('Content-Length', stat.size);
      response.writeHead(200);
      if (request.method === 'HEAD') return void response.end();
      return this.send(response, file, 0, stat.size - 1);
    }
    const [first, last] = [Number(range[1]), Math.min(Number(range[2]), stat.size - 1)];
    if (first >= stat.size) {
      return void response.writeHead(416, { 'Content-Range': `bytes */${stat.size}` }).end();
    }
    response.setHeader('Content-Range', `bytes ${first}-${last}/${stat.size}`);
    if (!compresses) response.setHeader('Content-Length', last - first + 1);
    response.writeHead(206);
    this.send(response, file, first, last);
  }

  private send(response: ServerResponse, file: string, start: number, end: number): void {
    if (end < start) return void response.end();
    const stream = createReadStream(file, { start, end });
    stream.on('data', (chunk) => (this.bytes += chunk.length));
    response.on('close', () => stream.destroy());
    if (this.behaviour.compresses) stream.pipe(createGzip()).pipe(response);
    else stream.pipe(response);
  }
}
