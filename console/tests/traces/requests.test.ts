import { describe, expect, test } from "vitest";
import type { Conversation, TimelineEntry, Trace, TraceRequest } from "../../src/api/types";
import {
  durationOf,
  formatCost,
  formatCount,
  formatNumbers,
  groupByConversation,
  groupByTool,
  hasCost,
  isProblem,
  tokensOf,
} from "../../src/pages/traces/requests";

const request = (id: string, more: Partial<TraceRequest> = {}): TraceRequest => ({
  ...{ id, request_id: "", at: 0, seconds: null, api: "/v1/chat/completions", model: "smol", status: "completed" },
  ...{ finish: "stop", error: null, prompt_tokens: 0, cached_tokens: 0, prompt_prefix: null, completion_tokens: 0, cost: null, tools: [], conversation: "" },
  ...{ messages: [] },
  ...more,
});
const trace = (requests: readonly TraceRequest[], more: Partial<Trace> = {}): Trace => ({
  ...{ object: "trace", id: "t", principal: "ann", title: "", model: "smol", status: "completed", error: "" },
  ...{ request_count: requests.length, error_count: 0, prompt_tokens: 0, completion_tokens: 0, cost: null },
  ...{ began_at: 0, changed_at: 0, conversations: [], requests },
  ...more,
});

describe("numbers", () => {
  test("of a cost have four significant digits and no exponent", () => {
    const costs = [0, 0.0000123456, 0.00123456, 0.5, 12.5, 3.99999, 1234.56];
    expect(costs.map(formatCost)).toEqual(["0", "0.00001235", "0.001235", "0.5", "12.5", "4", "1,235"]);
  });

  test("are followed by the right form of the noun", () => {
    expect([0, 1, 2, 1_200].map((count) => formatCount(count, "error"))).toEqual([
      ...["0 errors", "1 error", "2 errors", "1,200 errors"],
    ]);
  });

  test("in a row are shortened", () => {
    expect([[], [4], [1, 2], [1, 2, 3, 5, 7, 8]].map(formatNumbers)).toEqual(["", "4", "1–2", "1–3, 5, 7–8"]);
  });
});

test("a cost is shown if any trace has one, even if it is zero", () => {
  expect(hasCost([trace([]), trace([], { cost: 0 })])).toBe(true);
  expect(hasCost([trace([])])).toBe(false);
});

test("a request with an error or without an end is a problem", () => {
  const error = { code: "engine_down", message: "down", status: 502 };
  expect(isProblem(request("a", { status: "failed", error }))).toBe(true);
  expect(isProblem(request("a", { status: "incomplete", error }))).toBe(true);
  expect(isProblem(request("a", { status: "interrupted" }))).toBe(true);
  expect(isProblem(request("a", { status: "left" }))).toBe(false);
});

describe("a trace", () => {
  test("lasts until its last change or the end of its last request", () => {
    const requests = [request("a", { at: 10, seconds: 2 }), request("b", { at: 15 })];
    expect(durationOf(trace(requests, { began_at: 10, changed_at: 11 }))).toBe(5);
    expect(durationOf(trace(requests, { began_at: 10, changed_at: 40 }))).toBe(30);
    expect(durationOf(trace([], { began_at: 10, changed_at: 9 }))).toBe(0);
  });

  test("groups its requests by conversation, in the gateway's order", () => {
    const requests = ["b", "", "a", "b"].map((conversation, index) => request(String(index), { conversation }));
    expect(groupByConversation(trace(requests, { conversations: ["a", "b", "c"] }))).toEqual([
      { id: "a", requests: [3] },
      { id: "b", requests: [1, 4] },
      { id: "c", requests: [] },
    ]);
  });

  test("has the tokens of its requests, or else those of the timelines", () => {
    const tokens = { prompt: 5, completion: 2 };
    const conversation = { timeline: [{ at: 0, kind: "model", tokens } as TimelineEntry] } as unknown as Conversation;
    const counted = trace([request("a")], { prompt_tokens: 9, completion_tokens: 1 });
    expect(tokensOf(counted, [conversation])).toEqual({ prompt: 9, completion: 1 });
    expect(tokensOf(trace([]), [conversation, conversation])).toEqual({ prompt: 10, completion: 4 });
    expect(tokensOf(trace([]), [])).toBeNull();
  });
});

test("tools are grouped in the order of their first calls", () => {
  expect(groupByTool(["look", "pay", "look"])).toEqual([
    ["look", 2],
    ["pay", 1],
  ]);
});
