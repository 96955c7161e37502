import { describe, expect, test } from "vitest";
import type { Frame } from "../../src/api/frames";
import { Blocks } from "../../src/pages/chat/blocks";
import { messagesOf } from "../../src/pages/chat/history";
import { Pace } from "../../src/pages/chat/pace";
import { applied, end, newTurn, type CallItem, type Turn } from "../../src/pages/chat/transcript";
import { cases } from "../seeded";

function turnOf(...frames: object[]): Turn {
  const turn = newTurn(0, "Hello.", false);
  frames.forEach((frame, at) => applied(turn, { turn: "t", seq: at + 1, ...frame } as Frame));
  return turn;
}

const STARTED = { type: "started", runs: "gateway", model: "smol", conversation: "conv_1" };
const calls = (turn: Turn): CallItem[] => turn.items.filter((item) => item.kind === "call");
const call = (id: string, args: string, name = "order"): object[] => [
  { type: "tool_call_delta", id, name },
  { type: "tool_call_delta", id, name, arguments: args.slice(0, 4) },
  { type: "tool_call", id, name, arguments: args, runs: "gateway" },
];
const ran = (id: string, content: unknown, is_error = false): object[] => [
  { type: "tool_started", id, name: "order", arguments: '{"item":"tea"}' },
  { type: "tool_result", id, name: "order", content, is_error },
];

describe("a turn", () => {
  test("joins text, keeps reasoning apart and counts rounds by results", () => {
    const turn = turnOf(
      STARTED,
      { type: "reasoning", text: "hm" },
      { type: "token", text: "I " },
      { type: "token", text: "order." },
      ...call("call_1", '{"item": "tea"}'),
      ...ran("call_1", "ordered"),
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

  test("shows arguments while they are written", () => {
    const turn = turnOf(STARTED, ...call("c", '{"item": "tea"}').slice(0, 2));
    expect(calls(turn)[0]).toMatchObject({ state: "forming", written: '{"it' });
    applied(turn, { type: "tool_call", turn: "t", seq: 9, id: "c", name: "order", arguments: '{"item": "tea"}', runs: "gateway" });
    expect(calls(turn)[0]!.reader.root).toMatchObject({ isWhole: true, fields: [{ value: { text: "tea" } }] });
  });

  test("tells calls of two rounds apart that have the same id", () => {
    const turn = turnOf(
      STARTED,
      ...call("call_1", '{"item": "tea"}'),
      ...ran("call_1", "first"),
      ...call("call_1", '{"item": "rice"}'),
      ...ran("call_1", "second"),
    );
    expect(calls(turn).map((one) => one.result?.content)).toEqual(["first", "second"]);
  });

  test("asks for leave, and says what a person changed", () => {
    const leave = { type: "confirmation_required", approval: "a1", id: "c", tool: { name: "order", fingerprint: "f" } };
    const turn = turnOf(STARTED, ...call("c", '{"item": "coffee"}'), leave);
    expect(calls(turn)[0]).toMatchObject({ state: "asking", leave: { approval: "a1" } });
    for (const frame of ran("c", "ordered")) applied(turn, { turn: "t", seq: 9, ...frame } as Frame);
    expect(calls(turn)[0]).toMatchObject({ state: "done", ranWith: '{"item":"tea"}' });
  });

  test("does not say that arguments were changed where only their spaces were", () => {
    const turn = turnOf(STARTED, ...call("c", '{"item": "tea"}'), ...ran("c", "ordered"));
    expect(calls(turn)[0]!.ranWith).toBe("");
  });

  test("knows a call whose denial is told, and one after which the model just goes on", () => {
    const leave = { type: "confirmation_required", approval: "a1", id: "c", tool: { name: "order", fingerprint: "f" } };
    const told = turnOf(STARTED, ...call("c", '{"item": "tea"}'), leave, ran("c", "denied: no", true)[1]!);
    expect(calls(told)[0]).toMatchObject({ state: "denied", result: { content: "denied: no" } });
    const untold = turnOf(STARTED, ...call("c", '{"item": "tea"}'), leave, { type: "token", text: "Well." });
    expect(calls(untold)[0]).toMatchObject({ state: "denied", result: null });
    expect(messagesOf([untold]).map((one) => one["role"])).toEqual(["user", "assistant", "tool", "assistant"]);
    const left = turnOf(STARTED, ...call("c", '{"item": "tea"}'), leave, { type: "done", finish_reason: "cancelled" });
    expect(calls(left)[0]).toMatchObject({ state: "left", result: null });
  });

  test("hands on no call that was cut off, and knows not what became of one that ran", () => {
    const forming = turnOf(STARTED, ...call("c", '{"item": "tea"}').slice(0, 2));
    end(forming, { finish: "cancelled" });
    expect(calls(forming)[0]!.state).toBe("dropped");
    const running = turnOf(STARTED, ...call("c", '{"item": "tea"}'), ran("c", "")[0]!);
    end(running, { finish: "cancelled" });
    expect(calls(running)[0]!.state).toBe("unknown");
    const told = turnOf(STARTED, ...call("c", "{}").slice(0, 2), {
      type: "diagnostic",
      code: "incomplete_call",
      message: "cut off",
      id: "c",
    });
    expect(calls(told)[0]).toMatchObject({ state: "dropped", why: "cut off" });
  });

  test("keeps the wire apart by rounds, and forced text apart from written", () => {
    const rule = { type: "rule", format: "hermes", target: "gbnf", grammar: "root ::= x", prompt: "p" };
    const turn = turnOf(
      STARTED,
      rule,
      { type: "wire", text: "<tool" },
      { type: "wire", text: "_call>", forced: true },
      { type: "wire", text: "\n", forced: true },
      ...call("c", "{}"),
      ...ran("c", "x"),
      { type: "wire", text: "ok" },
    );
    expect(turn.wire.map((part) => [part.round, part.rule?.target, part.pieces.map((one) => one.text.text)])).toEqual([
      [0, "gbnf", ["<tool", "_call>\n"]],
      [1, undefined, ["ok"]],
    ]);
  });

  test("passes over frames that it does not know", () => {
    expect(turnOf(STARTED, { type: "new", what: 1 }).state).toBe("writing");
  });
});

describe("the history", () => {
  test("has what was said, called and given, with names of its own", () => {
    const first = turnOf(
      STARTED,
      { type: "reasoning", text: "never sent back" },
      ...call("call_1", '{"item": "coffee"}'),
      ...ran("call_1", { ok: true }),
      ...call("call_1", '{"item": "tea"}'),
      ...ran("call_1", "denied: no", true),
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

  test("has no call without a result", () => {
    const turn = turnOf(STARTED, ...call("c", "{}"));
    expect(messagesOf([turn])).toEqual([{ role: "user", content: "Hello." }]);
  });
});

describe("blocks", () => {
  test("are the text, whatever it came in, and finished ones never change", () => {
    for (const seeded of cases(50)) {
      const text = Array.from({ length: 400 }, () => seeded.text()).join("x".repeat(seeded.below(40)));
      const blocks = new Blocks();
      const finished: string[] = [];
      for (const piece of seeded.cut(text)) {
        blocks.add(piece);
        finished.push(...blocks.whole.slice(finished.length));
      }
      expect(blocks.whole).toEqual(finished);
      expect(blocks.text).toBe(text);
      expect(blocks.last.length).toBeLessThanOrEqual(4_000);
    }
  });

  test("do not cut a character in two", () => {
    const blocks = new Blocks("x" + "😀".repeat(5_000));
    for (const block of blocks.whole) expect(block).not.toMatch(/[\uD800-\uDBFF]$/);
  });
});

describe("the pace", () => {
  test("hands on a thousand things at once, for one picture", () => {
    const due: (() => void)[] = [];
    const batches: number[] = [];
    const pace = new Pace<number>((run) => due.push(run), (batch) => batches.push(batch.length));
    for (let at = 0; at < 1000; at += 1) pace.add(at);
    expect(due).toHaveLength(1);
    due.shift()!();
    expect(batches).toEqual([1000]);
    pace.add(1);
    expect(due).toHaveLength(1);
  });
});
