// Long jobs in short calls: how far they are can be shown, other calls come in
// between, and they stop.

/** How long a call should take: short enough that nobody waits for it. */
const SLICE_MS = 60;
/** What does not end for so long after it was asked to is ended. */
const PATIENCE_MS = 1500;

export interface Job {
  total: number;
  /** The size of the first slice, and of the largest. */
  first: number;
  largest: number;
  /** Returns how many it did, where that may be fewer. */
  work(first: number, count: number): Promise<number | void>;
  progress(done: number): void;
  signal: AbortSignal;
}

/** True when all was done, false when it was stopped. */
export async function inSlices(job: Job): Promise<boolean> {
  let [done, count] = [0, job.first];
  while (done < job.total && !job.signal.aborted) {
    const began = performance.now();
    const taken = Math.min(count, job.total - done);
    const worked = await job.work(done, taken);
    if (job.signal.aborted) break;
    done += worked ?? taken;
    job.progress(done);
    const elapsed = performance.now() - began;
    if (elapsed < SLICE_MS / 2) count = Math.min(2 * count, job.largest);
    else if (elapsed > 2 * SLICE_MS) count = Math.max(1, count >> 1);
  }
  return done >= job.total;
}

/** Calls `end` when work goes on for too long after the signal. */
export function endLate(signal: AbortSignal, work: Promise<unknown>, end: () => void): void {
  signal.addEventListener('abort', () => {
    const late = setTimeout(end, PATIENCE_MS);
    void work.catch(() => undefined).finally(() => clearTimeout(late));
  });
}
