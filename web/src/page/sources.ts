// Stores in what was dropped or picked: folders that hold a `meta.zr`.

import { isStoreName } from '../data/names.ts';
import type { Source } from '../protocol.ts';

/** Folders further down are not looked into. */
const DEPTH_MAX = 3;
/** A folder of folders may hold many stores; so many are offered. */
const STORES_MAX = 100;

interface Folder {
  name: string;
  files: Map<string, File>;
}

/** What `webkitdirectory` gives: every file below a folder, with its path. */
export function picked(files: Iterable<File>): Source[] {
  const folders = new Map<string, Folder>();
  for (const file of files) {
    const path = file.webkitRelativePath || file.name;
    const parent = path.slice(0, Math.max(0, path.lastIndexOf('/')));
    const name = parent.slice(parent.lastIndexOf('/') + 1) || 'dropped files';
    const folder = folders.get(parent) ?? { name, files: new Map<string, File>() };
    folders.set(parent, folder);
    if (isStoreName(file.name)) folder.files.set(file.name, file);
  }
  return stores([...folders.values()]);
}

function stores(folders: Folder[]): Source[] {
  return folders
    .filter(({ files }) => files.has('meta.zr'))
    .slice(0, STORES_MAX)
    .map(({ name, files }) => ({ kind: 'files', name, files }));
}

/** A folder, folders, or the files of a store. To be called within the event:
 * its items are gone afterwards. */
export async function dropped(transfer: DataTransfer): Promise<Source[]> {
  const loose: Folder = { name: 'dropped files', files: new Map() };
  const folders: Folder[] = [loose];
  for (const node of await Promise.all(nodesOf(transfer))) {
    if (node?.children) await walk(node, 0, folders);
    else if (node) await take(node, loose);
  }
  return stores(folders);
}

/** A file or a folder, whichever way the browser hands it out. */
interface Node {
  name: string;
  /** Of a folder. */
  children?(): Promise<Node[]>;
  file?(): Promise<File>;
}

/** What was dropped. The older way is known to every browser, but not allowed
 * in a page that was opened from a file. */
function nodesOf(transfer: DataTransfer): Promise<Node | undefined>[] {
  return [...transfer.items].map((item) => {
    const modern = item as DataTransferItem & { getAsFileSystemHandle?(): Promise<FileSystemHandle | null> };
    if (location.protocol === 'file:' && modern.getAsFileSystemHandle) {
      return modern.getAsFileSystemHandle().then((handle) => (handle ? fromHandle(handle) : undefined));
    }
    const entry = item.webkitGetAsEntry();
    return Promise.resolve(entry ? fromEntry(entry) : undefined);
  });
}

function fromHandle(handle: FileSystemHandle): Node {
  const { name, kind } = handle;
  if (kind === 'file') return { name, file: () => (handle as FileSystemFileHandle).getFile() };
  const children = async () => {
    const nodes: Node[] = [];
    const directory = handle as FileSystemDirectoryHandle & { values(): AsyncIterable<FileSystemHandle> };
    for await (const child of directory.values()) nodes.push(fromHandle(child));
    return nodes;
  };
  return { name, children };
}

function fromEntry(entry: FileSystemEntry): Node {
  const { name } = entry;
  if (!entry.isDirectory) {
    const file = () =>
      new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    return { name, file };
  }
  const children = async () => {
    const reader = (entry as FileSystemDirectoryEntry).createReader();
    const nodes: Node[] = [];
    // The browser hands out a hundred at a time.
    for (;;) {
      const some = await new Promise<FileSystemEntry[]>((resolve, reject) =>
        reader.readEntries(resolve, reject),
      );
      if (some.length === 0) return nodes;
      nodes.push(...some.map(fromEntry));
    }
  };
  return { name, children };
}

async function walk(node: Node, depth: number, folders: Folder[]): Promise<void> {
  const folder: Folder = { name: node.name, files: new Map() };
  folders.push(folder);
  const nodes = (await node.children?.()) ?? [];
  for (const child of nodes) if (!child.children) await take(child, folder);
  // The folder of a store has no stores within it.
  if (folder.files.has('meta.zr') || depth >= DEPTH_MAX) return;
  for (const child of nodes) if (child.children) await walk(child, depth + 1, folders);
}

/** A file that the browser cannot read is left out: the store says what it
 * lacks. */
async function take(node: Node, folder: Folder): Promise<void> {
  if (!isStoreName(node.name)) return;
  const file = await node.file?.().catch(() => undefined);
  if (file) folder.files.set(node.name, file);
}

/** The folder of a store on a server, or the address of its `meta.zr`. */
export function fromUrl(text: string): Source {
  const url = new URL(text, document.baseURI);
  if (!['http:', 'https:'].includes(url.protocol))
    throw new Error('An address begins with http:// or https://.');
  url.pathname = url.pathname.replace(/\/(meta\.zr)?$/, '');
  const name = decodeURIComponent(url.pathname.slice(url.pathname.lastIndexOf('/') + 1)) || url.host;
  return { kind: 'url', name, base: url.href };
}
