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
  const entries = [...transfer.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  const loose: Folder = { name: 'dropped files', files: new Map() };
  const folders: Folder[] = [loose];
  for (const entry of entries) {
    if (isDirectory(entry)) await walk(entry, 0, folders);
    else await take(entry, loose);
  }
  return stores(folders);
}

async function walk(directory: FileSystemDirectoryEntry, depth: number, folders: Folder[]): Promise<void> {
  const folder: Folder = { name: directory.name, files: new Map() };
  folders.push(folder);
  const entries = await list(directory);
  for (const entry of entries) if (!isDirectory(entry)) await take(entry, folder);
  // The folder of a store has no stores within it.
  if (folder.files.has('meta.zr') || depth >= DEPTH_MAX) return;
  for (const entry of entries) if (isDirectory(entry)) await walk(entry, depth + 1, folders);
}

/** The browser hands out a hundred at a time. */
async function list(directory: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = directory.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return all;
    all.push(...some);
  }
}

/** A file that the browser cannot read is left out: the store says what it
 * lacks. */
async function take(entry: FileSystemEntry, folder: Folder): Promise<void> {
  if (!isStoreName(entry.name)) return;
  try {
    const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
    folder.files.set(entry.name, file);
  } catch {
    folder.files.delete(entry.name);
  }
}

function isDirectory(entry: FileSystemEntry): entry is FileSystemDirectoryEntry {
  return entry.isDirectory;
}

/** The folder of a store on a server, or the address of its `meta.zr`. */
export function fromUrl(text: string): Source {
  const url = new URL(text, document.baseURI);
  if (!['http:', 'https:'].includes(url.protocol)) throw new Error('An address begins with http:// or https://.');
  url.pathname = url.pathname.replace(/\/(meta\.zr)?$/, '');
  const name = decodeURIComponent(url.pathname.slice(url.pathname.lastIndexOf('/') + 1)) || url.host;
  return { kind: 'url', name, base: url.href };
}
