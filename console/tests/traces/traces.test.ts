import { describe, expect, test } from "vitest";
import type { TimelineEntry } from "../../src/api/types";
import { brokenAt, holds, isTrouble, kindOf, longestOf, offset, shareOf, sized, sumsOf } from "../../src/pages/traces/kinds";
import { messageIn, type Message } from "../../src/pages/traces/message";
import { exchangeAt } from "../../src/pages/traces/exchange";
import { asQuery, wantedIn } from "../../src/pages/traces/search";

const moment = (kind: string, title = "", more: Partial<TimelineEntry> = {}): TimelineEntry => ({
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
const said = (role: string, text: string): Message => ({ role, parts: [{ kind: "text", text }] });
const called = (name: string, id: string): Message => ({
  role: "assistant",
  parts: [{ kind: "call", id, name, args: "{}", isWhole: true }],
});

test("a call is found by its place, with its result", () => {
  const result: Message = { role: "tool", parts: [{ kind: "result", id: "k", name: "pay", content: "no", isError: true }] };
  const messages = [said("user", "pay"), called("look", "j"), called("pay", "k"), result];
  expect(exchangeAt("1.2.0", messages)).toMatchObject({ call: { name: "pay" }, result: { content: "no" } });
  expect(exchangeAt("1.1.0~", messages)).toMatchObject({ call: { name: "look" }, result: null });
  expect(exchangeAt("1.3.0", messages)).toBeNull();
  expect(exchangeAt("mine", messages)).toBeNull();
});

test("of a message that somebody spoiled what can be read is read", () => {
  expect(messageIn({})).toEqual({ role: "", parts: [] });
  const parts = [null, 3, [], { kind: "new" }, { kind: "text", text: 5 }, { kind: "call", name: "look" }];
  expect(messageIn({ role: "assistant", parts })).toEqual({
    role: "assistant",
    parts: [
      { kind: "text", text: "" },
      { kind: "call", id: "", name: "look", args: "", isWhole: true },
    ],
  });
});

describe("figures", () => {
  test("people who are waited for do not make every bar short", () => {
    const timeline = [moment("tool", "", { seconds: 2 }), moment("approval", "", { seconds: 600 })];
    const longest = longestOf(timeline);
    expect(timeline.map((entry) => shareOf(entry, longest))).toEqual([1, 1]);
    expect(shareOf(moment("tool"), longest)).toBeNull();
    expect(shareOf(moment("tool", "", { seconds: 0 }), 0)).toBe(0);
  });

  test("are summed up", () => {
    const timeline = [
      moment("model", "", { at: 10, seconds: 1, tokens: { prompt: 5, completion: 2 } }),
      moment("unknown", "", { at: 11, seconds: 4 }),
      moment("tool", "", { at: 12, is_error: true }),
    ];
    expect(sumsOf(timeline)).toEqual({ seconds: 5, calls: 2, troubles: 2, tokens: { prompt: 5, completion: 2 } });
    expect(sumsOf([])).toEqual({ seconds: 0, calls: 0, troubles: 0, tokens: null });
  });

  test("are short", () => {
    expect([940, 3_210, 1_500_000].map(sized)).toEqual(["940 B", "3.2 kB", "1.5 MB"]);
    expect([0, 12.34, 65, 7_805, 90_000].map(offset)).toEqual(["+0.00 s", "+12.3 s", "+1:05", "+2:10:05", "+1 d 1 h"]);
  });
});

test("errors and what nobody knows of are trouble; a newer kind keeps its word", () => {
  expect(isTrouble(moment("unknown"))).toBe(true);
  expect(isTrouble(moment("tool", "", { is_error: true }))).toBe(true);
  expect(isTrouble(moment("tool"))).toBe(false);
  expect(kindOf(moment("telepathy")).word).toBe("telepathy");
});

test("a line is found by its words in any case", () => {
  expect(holds(moment("tool", "Pay the rent"), " RENT ")).toBe(true);
  expect(holds(moment("tool", "Pay the rent"), "look")).toBe(false);
});

test("where a chain broke is read from the gateway's words", () => {
  expect(brokenAt("row 7 of 'c' was changed")).toBe(7);
  expect(brokenAt("")).toBeNull();
});

test("a search is an address and back", () => {
  const wanted = { text: "rent & more", tool: "pay", principal: "" };
  expect(wantedIn(new URLSearchParams(asQuery(wanted)))).toEqual(wanted);
  expect(asQuery({ text: " ", tool: "", principal: "" })).toEqual({});
});
