// The literals of Python that a structured type is written in: lists, tuples,
// texts and integers.

export type Literal = string | number | Literal[];

const NESTING_MAX = 64;

/** None where the text is no such literal. */
export function parseLiteral(text: string): Literal | undefined {
  const reader = new Reader(text);
  const literal = reader.value(0);
  return reader.isAtEnd ? literal : undefined;
}

class Reader {
  private at = 0;

  constructor(private readonly text: string) {}

  get isAtEnd(): boolean {
    this.skipSpaces();
    return this.at === this.text.length;
  }

  value(depth: number): Literal | undefined {
    this.skipSpaces();
    const next = this.text[this.at];
    if (next === '[' || next === '(') return this.list(next === '[' ? ']' : ')', depth);
    if (next === "'" || next === '"') return this.string(next);
    const digits = /^\d+/.exec(this.text.slice(this.at, this.at + 20));
    if (!digits) return undefined;
    this.at += digits[0].length;
    return Number(digits[0]);
  }

  private list(end: string, depth: number): Literal[] | undefined {
    if (depth >= NESTING_MAX) return undefined;
    const items: Literal[] = [];
    this.at += 1;
    for (;;) {
      this.skipSpaces();
      if (this.text[this.at] === end) {
        this.at += 1;
        return items;
      }
      if (items.length > 0 && !this.takes(',')) return undefined;
      this.skipSpaces();
      // A comma may stand behind the last item.
      if (this.text[this.at] === end) continue;
      const item = this.value(depth + 1);
      if (item === undefined) return undefined;
      items.push(item);
    }
  }

  private string(quote: string): string | undefined {
    let text = '';
    this.at += 1;
    while (this.at < this.text.length) {
      const next = this.text[this.at];
      this.at += 1;
      if (next === quote) return text;
      text += next === '\\' ? this.escape() : next;
    }
    return undefined;
  }

  private escape(): string {
    const coded = /^(?:x([\da-fA-F]{2})|u([\da-fA-F]{4})|U([\da-fA-F]{8}))/.exec(
      this.text.slice(this.at, this.at + 9),
    );
    if (coded) {
      this.at += coded[0].length;
      const point = parseInt(coded[1] ?? coded[2] ?? coded[3] ?? '', 16);
      return point <= 0x10ffff ? String.fromCodePoint(point) : '\ufffd';
    }
    this.at += 1;
    return this.text[this.at - 1] ?? '';
  }

  private takes(character: string): boolean {
    if (this.text[this.at] !== character) return false;
    this.at += 1;
    return true;
  }

  private skipSpaces(): void {
    while (this.text[this.at] === ' ') this.at += 1;
  }
}
