// What encoded images say of themselves in their first bytes. They are decoded
// only once it is known how large they are. SVG is none of them: it is a
// program, and is shown as text.

export interface ImageHead {
  type: 'image/png' | 'image/jpeg' | 'image/webp' | 'image/gif';
  /** Absent where the head does not say, so that nothing is decoded. */
  size?: { width: number; height: number };
}

/** Larger images are not decoded. */
export const PIXELS_MAX = 64_000_000;

export function imageHead(bytes: Uint8Array): ImageHead | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const begins = (text: string, at = 0) =>
    bytes.length >= at + text.length &&
    [...text].every((character, position) => bytes[at + position] === character.charCodeAt(0));
  if (begins('\x89PNG\r\n\x1a\n')) return head('image/png', pngSize(view, begins));
  if (begins('\xff\xd8\xff')) return head('image/jpeg', jpegSize(view));
  if (begins('GIF87a') || begins('GIF89a')) return head('image/gif', gifSize(view));
  if (begins('RIFF') && begins('WEBP', 8)) return head('image/webp', webpSize(view, begins));
  return undefined;
}

type Size = { width: number; height: number } | undefined;
type Begins = (text: string, at?: number) => boolean;

function head(type: ImageHead['type'], size: Size): ImageHead {
  return size && size.width > 0 && size.height > 0 ? { type, size } : { type };
}

function pngSize(view: DataView, begins: Begins): Size {
  if (view.byteLength < 24 || !begins('IHDR', 12)) return undefined;
  return { width: view.getUint32(16), height: view.getUint32(20) };
}

function gifSize(view: DataView): Size {
  if (view.byteLength < 10) return undefined;
  return { width: view.getUint16(6, true), height: view.getUint16(8, true) };
}

function webpSize(view: DataView, begins: Begins): Size {
  if (view.byteLength < 30) return undefined;
  if (begins('VP8X', 12)) {
    const uint24 = (at: number) => view.getUint16(at, true) | (view.getUint8(at + 2) << 16);
    return { width: 1 + uint24(24), height: 1 + uint24(27) };
  }
  if (begins('VP8L', 12)) {
    const bits = view.getUint32(21, true);
    return { width: 1 + (bits & 0x3fff), height: 1 + ((bits >>> 14) & 0x3fff) };
  }
  if (begins('VP8 ', 12)) {
    return { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff };
  }
  return undefined;
}

/** The first frame header of a JPEG, from segment to segment. */
function jpegSize(view: DataView): Size {
  let at = 2;
  while (at + 9 <= view.byteLength) {
    if (view.getUint8(at) !== 0xff) return undefined;
    const marker = view.getUint8(at + 1);
    // Fill bytes, and markers without a segment.
    if (marker === 0xff) at += 1;
    else if (marker === 0x01 || (marker >= 0xd0 && marker <= 0xd8)) at += 2;
    else if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      return { width: view.getUint16(at + 7), height: view.getUint16(at + 5) };
    } else if (marker === 0xd9 || marker === 0xda) return undefined;
    else at += 2 + view.getUint16(at + 2);
  }
  return undefined;
}
