// A list of any length behind a scrollbar whose track is not: browsers end an
// element near 2^25 pixels or below. Where the list is longer than the track,
// positions are scaled, and small movements are counted in real pixels.

/** No element is made higher. */
export const TRACK_MAX = 8_000_000;

export class ScaledScroll {
  /** The first visible pixel of the whole list. */
  top = 0;

  constructor(
    readonly rows: number,
    readonly rowHeight: number,
    public viewport: number,
  ) {}

  /** The height of the whole list. */
  get height(): number {
    return this.rows * this.rowHeight;
  }

  /** The height of the element that makes the scrollbar. */
  get track(): number {
    return Math.min(this.height, TRACK_MAX);
  }

  get isScaled(): boolean {
    return this.height > TRACK_MAX;
  }

  get topMax(): number {
    return Math.max(0, this.height - this.viewport);
  }

  private get barMax(): number {
    return Math.max(0, this.track - this.viewport);
  }

  moveTo(top: number): void {
    this.top = Math.min(Math.max(0, top), this.topMax);
  }

  moveBy(pixels: number): void {
    this.moveTo(this.top + pixels);
  }

  /** Follows the scrollbar. */
  moveToBar(bar: number): void {
    if (!this.isScaled) return this.moveTo(bar);
    // The ends of the bar are those of the list, exactly; within half a pixel,
    // since browsers round.
    if (bar <= 0.5) return this.moveTo(0);
    if (bar >= this.barMax - 0.5) return this.moveTo(this.topMax);
    // A row begins at the edge, so that a place of the bar is a row.
    const top = (bar / this.barMax) * this.topMax;
    this.moveTo(Math.round(top / this.rowHeight) * this.rowHeight);
  }

  /** Where the scrollbar stands. */
  get bar(): number {
    if (!this.isScaled) return this.top;
    return this.topMax === 0 ? 0 : Math.round((this.top / this.topMax) * this.barMax);
  }

  /** Brings a row into view: no further than needed where it is near, else
   * into the middle. */
  reveal(row: number): void {
    const begin = row * this.rowHeight;
    const end = begin + this.rowHeight - this.viewport;
    const isFar = begin < this.top - this.viewport || end > this.top + this.viewport;
    if (isFar) this.moveTo(Math.round((begin + end) / 2 / this.rowHeight) * this.rowHeight);
    else if (begin < this.top) this.moveTo(begin);
    else if (end > this.top) this.moveTo(end);
  }

  /** The rows that can be seen, also in part. */
  visible(): { first: number; count: number } {
    const first = Math.min(Math.floor(this.top / this.rowHeight), this.rows);
    const last = Math.min(Math.ceil((this.top + this.viewport) / this.rowHeight), this.rows);
    return { first, count: Math.max(0, last - first) };
  }

  /** How many rows fit whole. */
  get page(): number {
    return Math.max(1, Math.floor(this.viewport / this.rowHeight));
  }
}
