// Files that were dropped or picked: read through `FileReaderSync`, which only
// a worker has.

import type { Span } from '../data/spans.ts';
import type { BlockSizes, ByteFile } from './blocks.ts';
import type { FileSource } from './files.ts';

/** A read takes a millisecond or two, however short it is. */
const SIZES: BlockSizes = { block: 64 << 10, gap: 2, ahead: 16 };

export class LocalSource implements FileSource {
  readonly sizes = SIZES;

  constructor(private readonly files: Map<string, File>) {}

  open(name: string): ByteFile {
    const file = this.files.get(name);
    if (!file) throw { tag: 'no-entry' };
    return { size: file.size, fetch: (spans, take) => take(this.fetch(file, spans)) };
  }

  /** All of them in one read, since that is what takes the time. */
  private fetch(file: File, spans: Span[]): Uint8Array[] {
    const slices = spans.map(({ offset, length }) => file.slice(offset, offset + length));
    const buffer = read(slices.length === 1 && slices[0] ? slices[0] : new Blob(slices));
    let start = 0;
    return spans.map(({ length }) => {
      start += length;
      return new Uint8Array(buffer, start - length, length);
    });
  }
}

function read(blob: Blob): ArrayBuffer {
  try {
    const buffer = new FileReaderSync().readAsArrayBuffer(blob);
    if (buffer.byteLength === blob.size) return buffer;
  } catch (error) {
    const name = error instanceof DOMException ? error.name : '';
    if (name === 'NotFoundError') throw { tag: 'no-entry' };
    if (name === 'SecurityError') throw { tag: 'access' };
    const val = 'the browser can no longer read it: it was changed, moved or locked since it was opened';
    if (name === 'NotReadableError') throw { tag: 'other', val };
    throw { tag: 'other', val: String(error) };
  }
  throw { tag: 'io' };
}
