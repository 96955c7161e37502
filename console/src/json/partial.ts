/**
 * PartialReader: JSON that is still being written, read piece by piece, each character once.
 *
 * At any moment `root` is what stands there so far. However the text is cut, the same tree comes out; what is no JSON
 * is said in `fault`, and what follows it is left alone. Knows nothing of schemas.
 */

export interface ObjectPart {
  readonly kind: "object";
  readonly fields: Field[];
  isWhole: boolean;
}
export interface ListPart {
  readonly kind: "list";
  readonly items: Part[];
  isWhole: boolean;
}
export interface StringPart {
  readonly kind: "string";
  text: string;
  isWhole: boolean;
}
/** A number, `true`, `false` or `null`, as it is written. */
export interface WordPart {
  readonly kind: "word";
  text: string;
  isWhole: boolean;
}
export type Part = ObjectPart | ListPart | StringPart | WordPart;

export interface Field {
  readonly key: StringPart;
  value: Part | null;
}

type State = "value" | "first item" | "first key" | "key" | "colon" | "after" | "string" | "word" | "end" | "broken";

const SPACE = new Set([" ", "\n", "\r", "\t"]);
const WORD = /^(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)$/;
const WORD_CHARACTER = /[-+.0-9A-Za-z]/;
const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

export class PartialReader {
  root: Part | null = null;
  fault = "";
  private state: State = "value";
  private readonly open: (ObjectPart | ListPart)[] = [];
  private string: StringPart | null = null;
  private word: WordPart | null = null;
  /** What was read of an escape, from its backslash on. */
  private escape = "";

  feed(text: string): void {
    let at = 0;
    while (at < text.length && this.state !== "broken") {
      at = this.state === "string" ? this.inString(text, at) : this.one(text, at);
    }
  }

  /** Reads one character, or none where it only ends a word, and says where to go on. */
  private one(text: string, at: number): number {
    const character = text[at]!;
    if (this.state === "word") {
      if (WORD_CHARACTER.test(character)) {
        this.word!.text += character;
        return at + 1;
      }
      this.endWord();
      return at;
    }
    if (SPACE.has(character)) return at + 1;
    switch (this.state) {
      case "first item":
        if (character === "]") this.close();
        else this.begin(character);
        break;
      case "value":
        this.begin(character);
        break;
      case "first key":
      case "key":
        if (character === "}" && this.state === "first key") this.close();
        else if (character === '"') this.beginKey();
        else this.breaks(`a key cannot begin with ${character}`);
        break;
      case "colon":
        if (character === ":") this.state = "value";
        else this.breaks("a colon is missing");
        break;
      case "after":
        this.after(character);
        break;
      default:
        this.breaks("something follows the end");
    }
    return at + 1;
  }

  private after(character: string): void {
    const inner = this.open.at(-1)!;
    if (character === ",") this.state = inner.kind === "object" ? "key" : "value";
    else if (character === (inner.kind === "object" ? "}" : "]")) this.close();
    else this.breaks("a comma is missing");
  }

  private begin(character: string): void {
    if (character === "{") this.put({ kind: "object", fields: [], isWhole: false }, "first key");
    else if (character === "[") this.put({ kind: "list", items: [], isWhole: false }, "first item");
    else if (character === '"') {
      this.string = { kind: "string", text: "", isWhole: false };
      this.put(this.string, "string");
    } else if (WORD_CHARACTER.test(character)) {
      this.word = { kind: "word", text: character, isWhole: false };
      this.put(this.word, "word");
    } else this.breaks(`a value cannot begin with ${character}`);
  }

  private beginKey(): void {
    this.string = { kind: "string", text: "", isWhole: false };
    const inner = this.open.at(-1) as ObjectPart;
    inner.fields.push({ key: this.string, value: null });
    this.state = "string";
  }

  private put(part: Part, next: State): void {
    const inner = this.open.at(-1);
    if (!inner) this.root = part;
    else if (inner.kind === "list") inner.items.push(part);
    else inner.fields.at(-1)!.value = part;
    if (part.kind === "object" || part.kind === "list") this.open.push(part);
    this.state = next;
  }

  private inString(text: string, from: number): number {
    if (this.escape) return this.inEscape(text[from]!, from);
    let at = from;
    while (at < text.length && text[at] !== '"' && text[at] !== "\\") at += 1;
    this.string!.text += text.slice(from, at);
    if (at === text.length) return at;
    if (text[at] === "\\") this.escape = "\\";
    else this.endString();
    return at + 1;
  }

  private inEscape(character: string, at: number): number {
    if (this.escape === "\\" && character !== "u") {
      const meant = ESCAPES[character];
      if (meant === undefined) this.breaks(`there is no escape \\${character}`);
      else this.string!.text += meant;
      this.escape = "";
      return at + 1;
    }
    if (this.escape !== "\\" && !/[0-9A-Fa-f]/.test(character)) {
      this.breaks("an escape has four hexadecimal digits");
      return at + 1;
    }
    this.escape += character;
    if (this.escape.length === 6) {
      this.string!.text += String.fromCharCode(parseInt(this.escape.slice(2), 16));
      this.escape = "";
    }
    return at + 1;
  }

  private endString(): void {
    const string = this.string!;
    string.isWhole = true;
    this.string = null;
    const inner = this.open.at(-1);
    const isKey = inner?.kind === "object" && inner.fields.at(-1)?.key === string;
    this.state = isKey ? "colon" : this.behind();
  }

  private endWord(): void {
    const word = this.word!;
    this.word = null;
    if (WORD.test(word.text)) {
      word.isWhole = true;
      this.state = this.behind();
    } else this.breaks(`${word.text} is no value`);
  }

  private close(): void {
    this.open.pop()!.isWhole = true;
    this.state = this.behind();
  }

  private behind(): State {
    return this.open.length > 0 ? "after" : "end";
  }

  private breaks(why: string): void {
    this.fault = why;
    this.state = "broken";
  }
}
