/**
 * PartialParser: parses JSON that is still being streamed, each character once.
 *
 * `root` is always the tree of the text so far. The tree does not depend on how the text is split into pieces. After a
 * syntax error, `fault` describes it and further input is ignored. The parser knows nothing of schemas.
 */

export interface ObjectNode {
  readonly kind: "object";
  readonly fields: Field[];
  isComplete: boolean;
}
export interface ArrayNode {
  readonly kind: "array";
  readonly items: JsonNode[];
  isComplete: boolean;
}
export interface StringNode {
  readonly kind: "string";
  text: string;
  isComplete: boolean;
}
/** A number, `true`, `false` or `null`, with its spelling. */
export interface LiteralNode {
  readonly kind: "literal";
  text: string;
  isComplete: boolean;
}
export type JsonNode = ObjectNode | ArrayNode | StringNode | LiteralNode;

export interface Field {
  readonly key: StringNode;
  value: JsonNode | null;
}

type State = "value" | "first item" | "first key" | "key" | "colon" | "after" | "string" | "literal" | "end" | "broken";

const SPACE = new Set([" ", "\n", "\r", "\t"]);
const LITERAL = /^(?:true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)$/;
const LITERAL_CHARACTER = /[-+.0-9A-Za-z]/;
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

export class PartialParser {
  root: JsonNode | null = null;
  fault = "";
  private state: State = "value";
  private readonly open: (ObjectNode | ArrayNode)[] = [];
  private string: StringNode | null = null;
  private literal: LiteralNode | null = null;
  /** The part of an escape sequence that was read so far, from its backslash. */
  private escape = "";

  feed(text: string): void {
    let at = 0;
    while (at < text.length && this.state !== "broken") {
      at = this.state === "string" ? this.readString(text, at) : this.step(text, at);
    }
  }

  /** Reads one character, or none if it only ends a literal. Returns the position to continue at. */
  private step(text: string, at: number): number {
    const character = text[at]!;
    if (this.state === "literal") {
      if (LITERAL_CHARACTER.test(character)) {
        this.literal!.text += character;
        return at + 1;
      }
      this.endLiteral();
      return at;
    }
    if (SPACE.has(character)) return at + 1;
    switch (this.state) {
      case "first item":
        if (character === "]") this.close();
        else this.beginValue(character);
        break;
      case "value":
        this.beginValue(character);
        break;
      case "first key":
      case "key":
        if (character === "}" && this.state === "first key") this.close();
        else if (character === '"') this.beginKey();
        else this.fail(`a key cannot begin with ${character}`);
        break;
      case "colon":
        if (character === ":") this.state = "value";
        else this.fail("missing colon");
        break;
      case "after":
        this.readSeparator(character);
        break;
      default:
        this.fail("unexpected text after the value");
    }
    return at + 1;
  }

  private readSeparator(character: string): void {
    const inner = this.open.at(-1)!;
    if (character === ",") this.state = inner.kind === "object" ? "key" : "value";
    else if (character === (inner.kind === "object" ? "}" : "]")) this.close();
    else this.fail("missing comma");
  }

  private beginValue(character: string): void {
    if (character === "{") this.addNode({ kind: "object", fields: [], isComplete: false }, "first key");
    else if (character === "[") this.addNode({ kind: "array", items: [], isComplete: false }, "first item");
    else if (character === '"') {
      this.string = { kind: "string", text: "", isComplete: false };
      this.addNode(this.string, "string");
    } else if (LITERAL_CHARACTER.test(character)) {
      this.literal = { kind: "literal", text: character, isComplete: false };
      this.addNode(this.literal, "literal");
    } else this.fail(`a value cannot begin with ${character}`);
  }

  private beginKey(): void {
    this.string = { kind: "string", text: "", isComplete: false };
    const inner = this.open.at(-1) as ObjectNode;
    inner.fields.push({ key: this.string, value: null });
    this.state = "string";
  }

  private addNode(node: JsonNode, next: State): void {
    const inner = this.open.at(-1);
    if (!inner) this.root = node;
    else if (inner.kind === "array") inner.items.push(node);
    else inner.fields.at(-1)!.value = node;
    if (node.kind === "object" || node.kind === "array") this.open.push(node);
    this.state = next;
  }

  private readString(text: string, from: number): number {
    if (this.escape) return this.readEscape(text[from]!, from);
    let at = from;
    while (at < text.length && text[at] !== '"' && text[at] !== "\\") at += 1;
    this.string!.text += text.slice(from, at);
    if (at === text.length) return at;
    if (text[at] === "\\") this.escape = "\\";
    else this.endString();
    return at + 1;
  }

  private readEscape(character: string, at: number): number {
    if (this.escape === "\\" && character !== "u") {
      const unescaped = ESCAPES[character];
      if (unescaped === undefined) this.fail(`unknown escape \\${character}`);
      else this.string!.text += unescaped;
      this.escape = "";
      return at + 1;
    }
    if (this.escape !== "\\" && !/[0-9A-Fa-f]/.test(character)) {
      this.fail("\\u must be followed by four hexadecimal digits");
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
    string.isComplete = true;
    this.string = null;
    const inner = this.open.at(-1);
    const isKey = inner?.kind === "object" && inner.fields.at(-1)?.key === string;
    this.state = isKey ? "colon" : this.stateAfterValue();
  }

  private endLiteral(): void {
    const literal = this.literal!;
    this.literal = null;
    if (LITERAL.test(literal.text)) {
      literal.isComplete = true;
      this.state = this.stateAfterValue();
    } else this.fail(`${literal.text} is not a value`);
  }

  private close(): void {
    this.open.pop()!.isComplete = true;
    this.state = this.stateAfterValue();
  }

  private stateAfterValue(): State {
    return this.open.length > 0 ? "after" : "end";
  }

  private fail(why: string): void {
    this.fault = why;
    this.state = "broken";
  }
}
