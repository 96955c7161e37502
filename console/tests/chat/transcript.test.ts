import { describe, expect, test } from "vitest";
import type { Frame } from "../../src/api/frames";
import { TextBlocks } from "../../src/pages/chat/textBlocks";
import { messagesOf } from "../../src/pages/chat/history";
import { FrameBatcher } from "../../src/pages/chat/frameBatcher";
import { applyFrame, endTurn, newTurn, type CallItem, type Turn } from "../../src/pages/chat/transcript";
import { cases } from "../seededRandom";

function turnOf(...frames: object[]): Turn {
  const turn = newTurn(0, "Hello.", false);
  frames.forEach((frame, at) => applyFrame(turn, { turn: "t", seq: at + 1, ...frame } as Frame));
  return turn;
}

const STARTED = { type: "started", runs: "gateway", model: "smol", conversation: "conv_1" };
const calls = (turn: Turn): CallItem[] => turn.items.filter((item) => item.kind === "call");
const call = (id: string, args: string, name = "order"): object[] => [
  { type: "tool_call_delta", id, name },
  { type: "tool_call_delta", id, name, arguments: args.slice(0, 4) },
  { type: "tool_call", id, name, arguments: args, runs: "gateway" },
];
const runCall = (id: string, content: unknown, is_error = false): object[] => [
  { type: "tool_started", id, name: "order", arguments: '{"item":"tea"}' },
  { type: "tool_result", id, name: "order", content, is_error },
];

describe("a turn", () => {
  test("joins text, separates reasoning and counts rounds by results", () => {
    const turn = turnOf(
      STARTED,
      { type: "reasoning", text: "hm" },
      { type: "token", text: "I " },
      { type: "token", text: "order." },
      ...call("call_1", '{"item": "tea"}'),
      ...runCall("call_1", "ordered"),
      { type: "token", text: "Done." },
      { type: "done", finish_reason: "stop", usage: { prompt_tokens: 3, completion_tokens: 4 } },
    );
    expect(turn.items.map((item) => [item.kind, item.round])).toEqual([
      ["reasoning", 0],
      ["text", 0],
      ["call", 0],
      ["text", 1],
    ]);
    expect(turn).toMatchObject({ state: "done", conversation: "conv_1", usage: { prompt: 3, completion: 4 } });
  });

  test("shows arguments while they are streamed", () => {
    const turn = turnOf(STARTED, ...call("c", '{"item": "tea"}').slice(0, 2));
    expect(calls(turn)[0]).toMatchObject({ state: "streaming", partialArguments: '{"it' });
    applyFrame(turn, { type: "tool_call", turn: "t", seq: 9, id: "c", name: "order", arguments: '{"item": "tea"}', runs: "gateway" });
    expect(calls(turn)[0]!.parser.root).toMatchObject({ isComplete: true, fields: [{ value: { text: "tea" } }] });
  });

  test("distinguishes calls of two rounds with the same id", () => {
    const turn = turnOf(
      STARTED,
      ...call("call_1", '{"item": "tea"}'),
      ...runCall("call_1", "first"),
      ...call("call_1", '{"item": "rice"}'),
      ...runCall("call_1", "second"),
    );
    expect(calls(turn).map((item) => item.result?.content)).toEqual(["first", "second"]);
  });

  test("waits for approval, and keeps edited arguments", () => {
    const request = { type: "confirmation_required", approval: "a1", id: "c", tool: { name: "order", fingerprint: "f" } };
    const turn = turnOf(STARTED, ...call("c", '{"item": "coffee"}'), request);
    expect(calls(turn)[0]).toMatchObject({ state: "pending", approvalRequest: { approval: "a1" } });
    for (const frame of runCall("c", "ordered")) applyFrame(turn, { turn: "t", seq: 9, ...frame } as Frame);
    expect(calls(turn)[0]).toMatchObject({ state: "done", ranWith: '{"item":"tea"}' });
  });

  test("does not report edited arguments if only whitespace differs", () => {
    const turn = turnOf(STARTED, ...call("c", '{"item": "tea"}'), ...runCall("c", "ordered"));
    expect(calls(turn)[0]!.ranWith).toBe("");
  });

  test("detects a denial by its result, or by the model continuing", () => {
    const request = { type: "confirmation_required", approval: "a1", id: "c", tool: { name: "order", fingerprint: "f" } };
    const withResult = turnOf(STARTED, ...call("c", '{"item": "tea"}'), request, runCall("c", "denied: no", true)[1]!);
    expect(calls(withResult)[0]).toMatchObject({ state: "denied", result: { content: "denied: no" } });
    const withoutResult = turnOf(STARTED, ...call("c", '{"item": "tea"}'), request, { type: "token", text: "Well." });
    expect(calls(withoutResult)[0]).toMatchObject({ state: "denied", result: null });
    expect(messagesOf([withoutResult]).map((item) => item["role"])).toEqual(["user", "assistant", "tool", "assistant"]);
    const abandoned = turnOf(STARTED, ...call("c", '{"item": "tea"}'), request, { type: "done", finish_reason: "cancelled" });
    expect(calls(abandoned)[0]).toMatchObject({ state: "abandoned", result: null });
  });

  test("drops an incomplete call, and marks a running one as unknown", () => {
    const streaming = turnOf(STARTED, ...call("c", '{"item": "tea"}').slice(0, 2));
    endTurn(streaming, { finish: "cancelled" });
    expect(calls(streaming)[0]!.state).toBe("dropped");
    const running = turnOf(STARTED, ...call("c", '{"item": "tea"}'), runCall("c", "")[0]!);
    endTurn(running, { finish: "cancelled" });
    expect(calls(running)[0]!.state).toBe("unknown");
    const incomplete = turnOf(STARTED, ...call("c", "{}").slice(0, 2), {
      type: "diagnostic",
      code: "incomplete_call",
      message: "cut off",
      id: "c",
    });
    expect(calls(incomplete)[0]).toMatchObject({ state: "dropped", why: "cut off" });
  });

  test("separates raw output by round, and forced text from generated text", () => {
    const rule = { type: "rule", format: "hermes", target: "gbnf", grammar: "root ::= x", prompt: "p" };
    const turn = turnOf(
      STARTED,
      rule,
      { type: "wire", text: "<tool" },
      { type: "wire", text: "_call>", forced: true },
      { type: "wire", text: "\n", forced: true },
      ...call("c", "{}"),
      ...runCall("c", "x"),
      { type: "wire", text: "ok" },
    );
    expect(turn.raw.map((part) => [part.round, part.rule?.target, part.pieces.map((item) => item.text.text)])).toEqual([
      [0, "gbnf", ["<tool", "_call>\n"]],
      [1, undefined, ["ok"]],
    ]);
  });

  test("ignores unknown frames", () => {
    expect(turnOf(STARTED, { type: "new", what: 1 }).state).toBe("writing");
  });
});

describe("the history", () => {
  test("contains messages, calls and results, with unique call ids", () => {
    const first = turnOf(
      STARTED,
      { type: "reasoning", text: "never sent back" },
      ...call("call_1", '{"item": "coffee"}'),
      ...runCall("call_1", { ok: true }),
      ...call("call_1", '{"item": "tea"}'),
      ...runCall("call_1", "denied: no", true),
      { type: "token", text: "Well." },
    );
    expect(messagesOf([first, newTurn(1, "And now?", false)])).toEqual([
      { role: "user", content: "Hello." },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "call_1", type: "function", function: { name: "order", arguments: '{"item":"tea"}' } }],
      },
      { role: "tool", tool_call_id: "call_1", content: '{"ok":true}' },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "call_2", type: "function", function: { name: "order", arguments: '{"item": "tea"}' } }],
      },
      { role: "tool", tool_call_id: "call_2", content: "denied: no" },
      { role: "assistant", content: "Well." },
      { role: "user", content: "And now?" },
    ]);
  });

  test("omits calls without a result", () => {
    const turn = turnOf(STARTED, ...call("c", "{}"));
    expect(messagesOf([turn])).toEqual([{ role: "user", content: "Hello." }]);
  });
});

describe("blocks", () => {
  test("join to the text, and finished blocks never change", () => {
    for (const seeded of cases(50)) {
      const text = Array.from({ length: 400 }, () => seeded.text()).join("x".repeat(seeded.below(40)));
      const blocks = new TextBlocks();
      const finished: string[] = [];
      for (const piece of seeded.split(text)) {
        blocks.add(piece);
        finished.push(...blocks.finished.slice(finished.length));
      }
      expect(blocks.finished).toEqual(finished);
      expect(blocks.text).toBe(text);
      expect(blocks.last.length).toBeLessThanOrEqual(4_000);
    }
  });

  test("do not split a surrogate pair", () => {
    const blocks = new TextBlocks("x" + "😀".repeat(5_000));
    for (const block of blocks.finished) expect(block).not.toMatch(/[\uD800-\uDBFF]$/);
  });
});

describe("the frame batcher", () => {
  test("delivers a thousand items at once, for one paint", () => {
    const scheduled: (() => void)[] = [];
    const batches: number[] = [];
    const pace = new FrameBatcher<number>((run) => scheduled.push(run), (batch) => batches.push(batch.length));
    for (let at = 0; at < 1000; at += 1) pace.add(at);
    expect(scheduled).toHaveLength(1);
    scheduled.shift()!();
    expect(batches).toEqual([1000]);
    pace.add(1);
    expect(scheduled).toHaveLength(1);
  });
});
