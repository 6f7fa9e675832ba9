// What an answer to a range request must be like.

export interface HeaderList {
  get(name: string): string | null;
}

/** The size of the whole file, where the answer tells it. */
export function contentRange(headers: HeaderList): { size: number } | undefined {
  const size = /^bytes (?:\d+-\d+|\*)\/(\d+)$/.exec(headers.get('Content-Range') ?? '')?.[1];
  return size !== undefined && Number.isSafeInteger(Number(size)) ? { size: Number(size) } : undefined;
}

/** What the server lacks, in words; nothing when all is well. */
export function lacking(status: number, headers: HeaderList): string | undefined {
  if (status === 200) {
    return 'the server does not answer range requests: it would send the whole file. Python’s http.server is such a server; nginx, Caddy, Apache and object stores answer them.';
  }
  if (status !== 206) return `the server answered with status ${status}.`;
  const encoding = headers.get('Content-Encoding');
  if (encoding !== null && encoding !== 'identity') {
    return `the server compresses what it sends (Content-Encoding: ${encoding}), so positions in the file are lost. It must send the files of a store as they are.`;
  }
  if (!contentRange(headers)) {
    return 'the server does not let this page read Content-Range, which says how large the file is. It must answer with Access-Control-Expose-Headers: Content-Range.';
  }
  return undefined;
}
