/**
 * Text that cannot deceive: what moves the cursor, turns text around, has no width or looks like a plain space and is
 * none is found here, to be drawn as a mark. The same characters as the gateway's own `core.exact` spells out.
 */

export type Segment = { readonly text: string } | { readonly hidden: string; readonly code: string; readonly name: string };

/** `exact`: every one of them. `prose`: lines, tabs, no-break spaces and what makes up an emoji are let be. */
export type Manner = "exact" | "prose";

/** The plain space is the one separator that everybody sees. */
const HIDDEN =
  /(?! )[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\p{Zs}\u034F\u115F\u1160\u17B4\u17B5\u180B-\u180F\u2800\u3164\uFE00-\uFE0F\uFFA0\u{E0100}-\u{E01EF}]/u;
const PICTURE = /[\p{Extended_Pictographic}\p{Emoji_Modifier}\u20E3\uFE0F]$/u;
const PICTURE_AHEAD = /^[\p{Extended_Pictographic}\u20E3]/u;
const LET_BE = new Set(["\n", "\t", "\u00A0", "\u202F"]);
const ZERO_WIDTH_JOINER = "\u200D";
const EMOJI_STYLE = "\uFE0F";
const LONGEST_PICTURE = 12;

const NAMES: Readonly<Record<string, string>> = {
  "0": "null",
  "7": "bell",
  "8": "backspace",
  "9": "tab",
  A: "line feed",
  B: "vertical tab",
  C: "form feed",
  D: "carriage return",
  "1B": "escape",
  "7F": "delete",
  "85": "next line",
  A0: "no-break space",
  AD: "soft hyphen",
  "61C": "Arabic letter mark",
  "200B": "zero-width space",
  "200C": "zero-width non-joiner",
  "200D": "zero-width joiner",
  "200E": "left-to-right mark",
  "200F": "right-to-left mark",
  "2028": "line separator",
  "2029": "paragraph separator",
  "202A": "left-to-right embedding",
  "202B": "right-to-left embedding",
  "202C": "pop directional formatting",
  "202D": "left-to-right override",
  "202E": "right-to-left override",
  "2060": "word joiner",
  "2066": "left-to-right isolate",
  "2067": "right-to-left isolate",
  "2068": "first strong isolate",
  "2069": "pop directional isolate",
  "3000": "ideographic space",
  FEFF: "byte order mark",
};

/** Whether there is anything to mark. */
export function hasHidden(text: string, manner: Manner): boolean {
  return segments(text, manner).some((one) => "hidden" in one);
}

export function segments(text: string, manner: Manner): readonly Segment[] {
  const finds = new RegExp(HIDDEN.source, "gu");
  const found: Segment[] = [];
  let plainFrom = 0;
  for (let match = finds.exec(text); match; match = finds.exec(text)) {
    const character = match[0];
    const at = match.index;
    if (manner === "prose" && isLetBe(text, at, character)) continue;
    if (at > plainFrom) found.push({ text: text.slice(plainFrom, at) });
    found.push(marked(character));
    plainFrom = at + character.length;
  }
  if (plainFrom < text.length) found.push({ text: text.slice(plainFrom) });
  return found;
}

/** The same as one text, for a title or a name. */
export function spelled(text: string): string {
  return segments(text, "exact")
    .map((one) => ("hidden" in one ? `\u27E8${one.code}\u27E9` : one.text))
    .join("");
}

function marked(character: string): Segment {
  const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase();
  return { hidden: character, code: `U+${code.padStart(4, "0")}`, name: NAMES[code] ?? "hidden character" };
}

function isLetBe(text: string, at: number, character: string): boolean {
  if (LET_BE.has(character)) return true;
  if (character === "\r") return text[at + 1] === "\n";
  const before = text.slice(Math.max(0, at - LONGEST_PICTURE), at);
  if (character === EMOJI_STYLE) return /[\p{Extended_Pictographic}0-9#*]$/u.test(before);
  if (character !== ZERO_WIDTH_JOINER) return false;
  return PICTURE.test(before) && PICTURE_AHEAD.test(text.slice(at + 1, at + 1 + LONGEST_PICTURE));
}
