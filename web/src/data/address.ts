// The part of the address behind `#`, which no server is ever told.

export interface Address {
  url?: string;
  record: number;
}

/** `record` stands last: what is before it belongs to the address of a store,
 * which may have parameters of its own. */
export function readAddress(hash: string): Address {
  const [, url, digits] = /^#(?:url=(.*?))?&?(?:record=(\d+))?$/.exec(hash) ?? [];
  const record = Number(digits ?? 0);
  return {
    ...(url && { url: url.includes('://') || url.startsWith('/') ? url : decodeURIComponent(url) }),
    record: Number.isSafeInteger(record) ? record : 0,
  };
}
