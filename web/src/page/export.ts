// The selection as one `.npy`, whose records have one shape.

import { parseDtype } from '../data/dtype.ts';
import { counted, percent, size } from '../data/format.ts';
import { npyHead } from '../data/npy.ts';
import { download } from './dom.ts';
import type { Session } from './session.ts';

/** A page keeps all of it in memory. */
const EXPORT_BYTES_MAX = 256 << 20;
const EXPORT_RECORDS_MAX = 1 << 20;
const SLICE_BYTES = 16 << 20;
const SLICE_RECORDS = 1024;

/** Returns what was done, in words; throws an `Error` that says why not. */
export async function exportSelection(session: Session, say: (text: string) => void): Promise<string> {
  const { first, last } = session.selection;
  const records = last - first + 1;
  if (records > EXPORT_RECORDS_MAX) {
    throw new Error(
      `${counted(records, 'record')} are more than are exported here; the Python package has no limit.`,
    );
  }
  const bytesEach = await lengthOf(session, first, last);
  const bytes = bytesEach * records;
  if (bytes > EXPORT_BYTES_MAX) {
    throw new Error(
      `The selection has ${size(bytes)}, and ${size(EXPORT_BYTES_MAX)} are exported here at most; the Python package has no limit.`,
    );
  }
  const parts: BlobPart[] = [head(session, records, bytesEach)];
  let next = first;
  while (next <= last) {
    const count = Math.min(SLICE_RECORDS, last - next + 1);
    const indices = Array.from({ length: count }, (_, at) => next + at);
    const batch = await session.client.call('gather', indices, Math.max(SLICE_BYTES, bytesEach));
    parts.push(batch.bytes);
    next += batch.ends.length;
    say(`${percent(next - first, records)} read`);
  }
  const name = `${session.source.name}-${first}-${last}.npy`;
  download(parts, name);
  return `${name}: ${counted(records, 'record')}, ${size(bytes)}`;
}

/** The length that all of them have. */
async function lengthOf(session: Session, first: number, last: number): Promise<number> {
  const schema = session.opened.schema;
  if (schema?.kind === 'dense') return schema.rowBytes;
  let found: number | undefined;
  for (let next = first; next <= last; next += SLICE_RECORDS) {
    const rows = await session.client.call('rows', next, Math.min(SLICE_RECORDS, last - next + 1));
    rows.forEach((row, at) => {
      if ('error' in row) throw new Error(row.error);
      found ??= row.len;
      if (row.len !== found) {
        const text = `Records ${first} and ${next + at} differ in length, and the rows of one array have one shape.`;
        throw new Error(text);
      }
    });
  }
  return found ?? 0;
}

function head(session: Session, records: number, bytesEach: number): Uint8Array<ArrayBuffer> {
  const schema = session.opened.schema;
  const dtype = schema && parseDtype(schema.dtype);
  if (!schema || !dtype) return new Uint8Array(npyHead('|u1', 1, [records, bytesEach]));
  const isDense = schema.kind === 'dense';
  const rows = schema.rowBytes > 0 ? bytesEach / schema.rowBytes : 0;
  const shape = isDense ? [records, ...schema.itemShape] : [records, rows, ...schema.itemShape];
  return new Uint8Array(npyHead(schema.dtype, dtype.size, shape));
}
