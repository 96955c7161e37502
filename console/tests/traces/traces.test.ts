import { describe, expect, test } from "vitest";
import type { TimelineEntry } from "../../src/api/types";
import {
  brokenAt,
  formatBytes,
  formatOffset,
  isProblem,
  kindLabel,
  longestOf,
  matches,
  shareOf,
  totalsOf,
} from "../../src/pages/traces/entries";
import { parseMessage, type Message } from "../../src/pages/traces/message";
import { exchangeAt } from "../../src/pages/traces/exchange";

const entry = (kind: string, title = "", more: Partial<TimelineEntry> = {}): TimelineEntry => ({
  at: 0,
  seconds: null,
  kind,
  title,
  call_id: "",
  tool: "",
  approval: "",
  message: null,
  tokens: null,
  bytes: null,
  is_error: false,
  ...more,
});
const textMessage = (role: string, text: string): Message => ({ role, parts: [{ kind: "text", text }] });
const callMessage = (name: string, id: string): Message => ({
  role: "assistant",
  parts: [{ kind: "call", id, name, args: "{}", isComplete: true }],
});

test("a call is found by its position, with its result", () => {
  const result: Message = { role: "tool", parts: [{ kind: "result", id: "k", name: "pay", content: "no", isError: true }] };
  const messages = [textMessage("user", "pay"), callMessage("look", "j"), callMessage("pay", "k"), result];
  expect(exchangeAt("1.2.0", messages)).toMatchObject({ call: { name: "pay" }, result: { content: "no" } });
  expect(exchangeAt("1.1.0~", messages)).toMatchObject({ call: { name: "look" }, result: null });
  expect(exchangeAt("1.3.0", messages)).toBeNull();
  expect(exchangeAt("mine", messages)).toBeNull();
});

test("a damaged message is parsed as far as possible", () => {
  expect(parseMessage({})).toEqual({ role: "", parts: [] });
  const parts = [null, 3, [], { kind: "new" }, { kind: "text", text: 5 }, { kind: "call", name: "look" }];
  expect(parseMessage({ role: "assistant", parts })).toEqual({
    role: "assistant",
    parts: [
      { kind: "text", text: "" },
      { kind: "call", id: "", name: "look", args: "", isComplete: true },
    ],
  });
});

describe("numbers", () => {
  test("approvals do not shorten the other bars", () => {
    const timeline = [entry("tool", "", { seconds: 2 }), entry("approval", "", { seconds: 600 })];
    const longest = longestOf(timeline);
    expect(timeline.map((entry) => shareOf(entry, longest))).toEqual([1, 1]);
    expect(shareOf(entry("tool"), longest)).toBeNull();
    expect(shareOf(entry("tool", "", { seconds: 0 }), 0)).toBe(0);
  });

  test("are summed", () => {
    const timeline = [
      entry("model", "", { at: 10, seconds: 1, tokens: { prompt: 5, completion: 2 } }),
      entry("unknown", "", { at: 11, seconds: 4 }),
      entry("tool", "", { at: 12, is_error: true }),
    ];
    expect(totalsOf(timeline)).toEqual({ seconds: 5, calls: 2, problems: 2, tokens: { prompt: 5, completion: 2 } });
    expect(totalsOf([])).toEqual({ seconds: 0, calls: 0, problems: 0, tokens: null });
  });

  test("are short", () => {
    expect([940, 3_210, 1_500_000].map(formatBytes)).toEqual(["940 B", "3.2 kB", "1.5 MB"]);
    expect([0, 12.34, 65, 7_805, 90_000].map(formatOffset)).toEqual(["+0.00 s", "+12.3 s", "+1:05", "+2:10:05", "+1 d 1 h"]);
  });
});

test("errors and unknown outcomes are problems; an unknown kind keeps its name", () => {
  expect(isProblem(entry("unknown"))).toBe(true);
  expect(isProblem(entry("tool", "", { is_error: true }))).toBe(true);
  expect(isProblem(entry("tool"))).toBe(false);
  expect(kindLabel(entry("telepathy")).label).toBe("telepathy");
});

test("an entry is found by its text, ignoring case", () => {
  expect(matches(entry("tool", "Pay the rent"), " RENT ")).toBe(true);
  expect(matches(entry("tool", "Pay the rent"), "look")).toBe(false);
});

test("the broken row is parsed from the gateway's message", () => {
  expect(brokenAt("row 7 of 'c' was changed")).toBe(7);
  expect(brokenAt("")).toBeNull();
});
