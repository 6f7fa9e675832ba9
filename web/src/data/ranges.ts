// What is known of the checksums of records.

export type CheckState = 'none' | 'unchecked' | 'intact' | 'damaged';

/** Which records were checked: ranges, since a scan checks millions. */
export class Checks {
  private readonly ranges: { first: number; end: number }[] = [];
  private readonly damaged = new Set<number>();

  /** A store whose format has no checksums says so for every record. */
  constructor(readonly hasChecksums: boolean) {}

  add(first: number, count: number): void {
    let end = first + count;
    let at = this.ranges.findIndex((range) => range.end >= first);
    if (at < 0) at = this.ranges.length;
    let merged = 0;
    for (let range = this.ranges[at]; range && range.first <= end; range = this.ranges[at + merged]) {
      first = Math.min(first, range.first);
      end = Math.max(end, range.end);
      merged += 1;
    }
    this.ranges.splice(at, merged, { first, end });
  }

  addDamaged(index: number): void {
    this.damaged.add(index);
  }

  of(index: number): CheckState {
    if (this.damaged.has(index)) return 'damaged';
    if (!this.hasChecksums) return 'none';
    const isChecked = this.ranges.some((range) => range.first <= index && index < range.end);
    return isChecked ? 'intact' : 'unchecked';
  }
}
