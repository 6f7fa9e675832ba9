// A record drawn by the sampler of the component.

import type { Session } from './session.ts';

export function randomSeed(): bigint {
  return crypto.getRandomValues(new BigUint64Array(1))[0] ?? 0n;
}

/** So many records, drawn with replacement. */
export async function drawn(session: Session, batchSize: number): Promise<number[]> {
  const { length, client } = session;
  if (length === 0) return [];
  const options = { length, batchSize, mode: 'iid', seed: randomSeed(), rank: 0, worldSize: 1 } as const;
  return (await client.call('batches', options, 0, 1)).indices;
}

export async function surprise(session: Session): Promise<number> {
  return (await drawn(session, 1))[0] ?? 0;
}
