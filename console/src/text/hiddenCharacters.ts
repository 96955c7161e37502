/**
 * Finds hidden characters, to draw each as a visible marker: control characters, text direction overrides, characters
 * without width, and spaces that only look like the plain one. The same characters as in the gateway's `core/visible_text`;
 * `tests/core/test_visible_text.py` compares the two.
 */

export type Segment = { readonly text: string } | { readonly hidden: string; readonly code: string; readonly name: string };

/** `exact` marks every hidden character. `prose` allows line breaks, tabs, no-break spaces and the parts of an emoji. */
export type TextMode = "exact" | "prose";

/** The plain space is the only separator that is not hidden. */
const HIDDEN =
  /(?! )[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\p{Zs}\u034F\u115F\u1160\u17B4\u17B5\u180B-\u180F\u2800\u3164\uFE00-\uFE0F\uFFA0\u{E0100}-\u{E01EF}]/u;
const EMOJI_END = /[\p{Extended_Pictographic}\p{Emoji_Modifier}\u20E3\uFE0F]$/u;
const EMOJI_START = /^[\p{Extended_Pictographic}\u20E3]/u;
const ALLOWED_IN_PROSE = new Set(["\n", "\t", "\u00A0", "\u202F"]);
const ZERO_WIDTH_JOINER = "\u200D";
const EMOJI_VARIATION_SELECTOR = "\uFE0F";
const MAX_EMOJI_LENGTH = 12;

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

/** Whether the text has hidden characters. */
export function hasHidden(text: string, mode: TextMode): boolean {
  return segments(text, mode).some((segment) => "hidden" in segment);
}

export function segments(text: string, mode: TextMode): readonly Segment[] {
  const pattern = new RegExp(HIDDEN.source, "gu");
  const result: Segment[] = [];
  let plainFrom = 0;
  for (let match = pattern.exec(text); match; match = pattern.exec(text)) {
    const character = match[0];
    const at = match.index;
    if (mode === "prose" && isAllowedInProse(text, at, character)) continue;
    if (at > plainFrom) result.push({ text: text.slice(plainFrom, at) });
    result.push(hiddenSegment(character));
    plainFrom = at + character.length;
  }
  if (plainFrom < text.length) result.push({ text: text.slice(plainFrom) });
  return result;
}

/** Replaces hidden characters by their codes, for titles and names that are plain strings. */
export function spellOut(text: string): string {
  return segments(text, "exact")
    .map((segment) => ("hidden" in segment ? `\u27E8${segment.code}\u27E9` : segment.text))
    .join("");
}

function hiddenSegment(character: string): Segment {
  const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase();
  return { hidden: character, code: `U+${code.padStart(4, "0")}`, name: NAMES[code] ?? "hidden character" };
}

function isAllowedInProse(text: string, at: number, character: string): boolean {
  if (ALLOWED_IN_PROSE.has(character)) return true;
  if (character === "\r") return text[at + 1] === "\n";
  const before = text.slice(Math.max(0, at - MAX_EMOJI_LENGTH), at);
  if (character === EMOJI_VARIATION_SELECTOR) return /[\p{Extended_Pictographic}0-9#*]$/u.test(before);
  if (character !== ZERO_WIDTH_JOINER) return false;
  return EMOJI_END.test(before) && EMOJI_START.test(text.slice(at + 1, at + 1 + MAX_EMOJI_LENGTH));
}
