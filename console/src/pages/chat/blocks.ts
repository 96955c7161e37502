/** Blocks: a text that only grows, in pieces that are drawn once. Only the last piece changes, however long it becomes. */

const ENOUGH = 600;
const TOO_LONG = 4_000;

export class Blocks {
  /** Finished pieces; joined with `last` they are the text. */
  readonly whole: string[] = [];
  last = "";

  constructor(text = "") {
    this.add(text);
  }

  add(text: string): void {
    this.last += text;
    while (this.last.length > ENOUGH) {
      const cut = this.cut();
      if (cut === 0) return;
      this.whole.push(this.last.slice(0, cut));
      this.last = this.last.slice(cut);
    }
  }

  get text(): string {
    return this.whole.join("") + this.last;
  }

  /** Behind a line's end, so that a piece can be a paragraph of its own; anywhere, where a line never ends. */
  private cut(): number {
    const line = this.last.lastIndexOf("\n", TOO_LONG) + 1;
    if (line > 0) return line;
    if (this.last.length <= TOO_LONG) return 0;
    // Not between the halves of one character.
    const isHalf = /[\uD800-\uDBFF]/.test(this.last[TOO_LONG - 1]!);
    return isHalf ? TOO_LONG - 1 : TOO_LONG;
  }
}
