// What an answer to a range request must be like.

export interface HeaderList {
  get(name: string): string | null;
}

/** The size of the whole file, and how much of it the answer has, where it
 * tells that. */
export function contentRange(headers: HeaderList): { size: number; length: number } | undefined {
  const parts = /^bytes (?:(\d+)-(\d+)|\*)\/(\d+)$/.exec(headers.get('Content-Range') ?? '');
  const [first, last, size] = [Number(parts?.[1] ?? 0), Number(parts?.[2] ?? -1), Number(parts?.[3])];
  return [first, last, size].every(Number.isSafeInteger) ? { size, length: last - first + 1 } : undefined;
}

/** Also said where nothing but the length of an answer tells of it: pages are
 * not shown every header of another origin. */
export const COMPRESSED =
  'the server compresses what it sends, so positions in the file are lost; it must send the files of a store as they are';

/** What the server lacks, in words; nothing when all is well. */
export function lacking(status: number, headers: HeaderList): string | undefined {
  if (status === 200) {
    return 'the server does not answer range requests: it would send the whole file. Python’s http.server is such a server; nginx, Caddy, Apache and object stores answer them.';
  }
  if (status !== 206) return `the server answered with status ${status}.`;
  const encoding = headers.get('Content-Encoding');
  if (encoding !== null && encoding !== 'identity') {
    return `${COMPRESSED} (Content-Encoding: ${encoding}).`;
  }
  if (!contentRange(headers)) {
    return 'the server does not let this page read Content-Range, which says how large the file is. It must answer with Access-Control-Expose-Headers: Content-Range.';
  }
  return undefined;
}
