import { describe, expect, test } from "vitest";
import type { Approval } from "../../src/api/types";
import { formatCountdown } from "../../src/pages/approvals/countdown";
import {
  actionOf,
  hasForm,
  isQuestion,
  isSeenLongEnough,
  MIN_VIEW_MS,
  neighbour,
  nextAfter,
  parseQuestion,
  sortByAge,
  type KeyPress,
} from "../../src/pages/approvals/queue";
import { newlyPending } from "../../src/state/notifications";

const approval = (id: string, more: Partial<Approval> = {}): Approval =>
  ({ id, state: "pending", requested_at: 0, expires_at: 100, decided_at: null, conversation: "", call_id: "", ...more }) as Approval;
const list = ["a", "b", "c"].map((id) => approval(id));
const press = (key: string, more: Partial<KeyPress> = {}): KeyPress => ({
  key,
  isModified: false,
  isRepeated: false,
  isTyping: false,
  isInList: false,
  ...more,
});

describe("the queue", () => {
  test("is sorted by age, the oldest first", () => {
    const mixed = [approval("c", { requested_at: 3 }), approval("b", { requested_at: 1 }), approval("a", { requested_at: 1 })];
    expect(sortByAge(mixed).map((item) => item.id)).toEqual(["a", "b", "c"]);
  });

  test("does not wrap around", () => {
    expect(neighbour(list, "a", 1)?.id).toBe("b");
    expect(neighbour(list, "c", 1)?.id).toBe("c");
    expect(neighbour(list, "a", -1)?.id).toBe("a");
    expect(neighbour(list, "gone", 1)?.id).toBe("a");
    expect(neighbour([], "a", 1)).toBeUndefined();
  });

  test("selects the next approval after a decision, or the previous one at the end", () => {
    expect(nextAfter(list, "b")?.id).toBe("c");
    expect(nextAfter(list, "c")?.id).toBe("b");
    expect(nextAfter([approval("a")], "a")).toBeUndefined();
  });
});

describe("shortcuts", () => {
  test("map to the documented actions", () => {
    const actions = ["j", "k", "a", "d", "e", "t", "?"].map((key) => actionOf(press(key)));
    expect(actions).toEqual(["next", "previous", "approve", "deny", "edit", "tab", "help"]);
  });

  test("do nothing while the user types, or with a modifier", () => {
    for (const key of ["j", "a", "d", "e", "?", "ArrowDown"]) {
      expect(actionOf(press(key, { isTyping: true, isInList: true }))).toBeNull();
      expect(actionOf(press(key, { isModified: true, isInList: true }))).toBeNull();
    }
  });

  test("never decide while a key is held down", () => {
    expect(actionOf(press("a", { isRepeated: true }))).toBeNull();
    expect(actionOf(press("j", { isRepeated: true }))).toBe("next");
  });

  test("with arrow keys work only in the list", () => {
    expect(actionOf(press("ArrowDown"))).toBeNull();
    expect(actionOf(press("ArrowDown", { isInList: true }))).toBe("next");
  });

  test("are ignored right after an approval appears", () => {
    expect(isSeenLongEnough(1_000, 1_000 + MIN_VIEW_MS - 1)).toBe(false);
    expect(isSeenLongEnough(1_000, 1_000 + MIN_VIEW_MS)).toBe(true);
  });
});

test("approvals that were pending when the page opened cause no notification", () => {
  expect(newlyPending(null, list)).toEqual([]);
  expect(newlyPending(new Set(["a", "b"]), list).map((item) => item.id)).toEqual(["c"]);
});

test("a question of an MCP server is recognized by its ids", () => {
  expect(isQuestion(approval("a", { conversation: "asked-1", call_id: "question" }))).toBe(true);
  expect(isQuestion(approval("a", { conversation: "asked-1", call_id: "1.1.0" }))).toBe(false);
  expect(isQuestion(approval("a", { conversation: "asked-1", call_id: "sampling" }))).toBe(true);
});

test("only a question with a schema has a form; an address or a request for a model is approved as it is", () => {
  const asked = (members: object) =>
    approval("a", { conversation: "asked-1", call_id: "question", arguments: JSON.stringify(members) });
  expect(hasForm(asked({ message: "Which?", schema: { type: "object" } }))).toBe(true);
  expect(hasForm(asked({ message: "Pay", url: "https://a.example/" }))).toBe(false);
});

test("a question is parsed as far as possible", () => {
  const question = { message: "Which?", answer: { row: 1 }, schema: { type: "object" } };
  expect(parseQuestion(approval("a", { arguments: JSON.stringify(question) }))).toEqual({
    message: "Which?",
    url: "",
    host: "",
    model: "",
    schema: { type: "object" },
    answer: '{"row":1}',
  });
  expect(parseQuestion(approval("a", { arguments: "no JSON" }))).toEqual({
    message: "",
    url: "",
    host: "",
    model: "",
    schema: null,
    answer: "{}",
  });
});

test("the remaining time has at most two numbers", () => {
  const texts = [5, 65, 3_599, 3_700, 86_400, 200_000].map(formatCountdown);
  expect(texts).toEqual(["5 s", "1:05", "59:59", "1 h 1 min", "1 day", "2 days"]);
});
