/** TextBlocks: an append-only text, split into blocks of which only the last one changes. */

const MIN_LENGTH = 600;
const MAX_LENGTH = 4_000;

export class TextBlocks {
  /** Finished blocks. Joined with `last` they are the text. */
  readonly finished: string[] = [];
  last = "";

  constructor(text = "") {
    this.add(text);
  }

  add(text: string): void {
    this.last += text;
    while (this.last.length > MIN_LENGTH) {
      const cut = this.cutPosition();
      if (cut === 0) return;
      this.finished.push(this.last.slice(0, cut));
      this.last = this.last.slice(cut);
    }
  }

  get text(): string {
    return this.finished.join("") + this.last;
  }

  /** The end of the next block: after a line break, or anywhere in a line that is too long; 0 if there is none yet. */
  private cutPosition(): number {
    const line = this.last.lastIndexOf("\n", MAX_LENGTH) + 1;
    if (line > 0) return line;
    if (this.last.length <= MAX_LENGTH) return 0;
    // Do not split a surrogate pair.
    const isHalf = /[\uD800-\uDBFF]/.test(this.last[MAX_LENGTH - 1]!);
    return isHalf ? MAX_LENGTH - 1 : MAX_LENGTH;
  }
}
