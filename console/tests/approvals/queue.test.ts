import { describe, expect, test } from "vitest";
import type { Approval } from "../../src/api/types";
import { counted } from "../../src/pages/approvals/counted";
import { actionOf, afterwards, further, inOrder, isQuestion, isSeen, LOOK, questionIn, type Press } from "../../src/pages/approvals/queue";
import { news } from "../../src/state/notices";

const one = (id: string, more: Partial<Approval> = {}): Approval =>
  ({ id, state: "pending", requested_at: 0, expires_at: 100, decided_at: null, conversation: "", call_id: "", ...more }) as Approval;
const list = ["a", "b", "c"].map((id) => one(id));
const press = (key: string, more: Partial<Press> = {}): Press => ({
  key,
  isModified: false,
  isRepeated: false,
  isTyping: false,
  isInList: false,
  ...more,
});

describe("the queue", () => {
  test("has the oldest first, however it comes", () => {
    const mixed = [one("c", { requested_at: 3 }), one("b", { requested_at: 1 }), one("a", { requested_at: 1 })];
    expect(inOrder(mixed).map((each) => each.id)).toEqual(["a", "b", "c"]);
  });

  test("ends at its ends", () => {
    expect(further(list, "a", 1)?.id).toBe("b");
    expect(further(list, "c", 1)?.id).toBe("c");
    expect(further(list, "a", -1)?.id).toBe("a");
    expect(further(list, "gone", 1)?.id).toBe("a");
    expect(further([], "a", 1)).toBeUndefined();
  });

  test("goes on behind the one that was decided on, or before it at the end", () => {
    expect(afterwards(list, "b")?.id).toBe("c");
    expect(afterwards(list, "c")?.id).toBe("b");
    expect(afterwards([one("a")], "a")).toBeUndefined();
  });
});

describe("keys", () => {
  test("mean what the help says", () => {
    const meant = ["j", "k", "a", "d", "e", "t", "?"].map((key) => actionOf(press(key)));
    expect(meant).toEqual(["next", "previous", "approve", "deny", "edit", "tab", "help"]);
  });

  test("do nothing while somebody types, or with a modifier", () => {
    for (const key of ["j", "a", "d", "e", "?", "ArrowDown"]) {
      expect(actionOf(press(key, { isTyping: true, isInList: true }))).toBeNull();
      expect(actionOf(press(key, { isModified: true, isInList: true }))).toBeNull();
    }
  });

  test("that are held down never decide", () => {
    expect(actionOf(press("a", { isRepeated: true }))).toBeNull();
    expect(actionOf(press("j", { isRepeated: true }))).toBe("next");
  });

  test("with arrows belong to the list only", () => {
    expect(actionOf(press("ArrowDown"))).toBeNull();
    expect(actionOf(press("ArrowDown", { isInList: true }))).toBe("next");
  });

  test("that came too soon were meant for another one", () => {
    expect(isSeen(1_000, 1_000 + LOOK - 1)).toBe(false);
    expect(isSeen(1_000, 1_000 + LOOK)).toBe(true);
  });
});

test("what waited already when the page was opened is no news", () => {
  expect(news(null, list)).toEqual([]);
  expect(news(new Set(["a", "b"]), list).map((each) => each.id)).toEqual(["c"]);
});

test("a question of a server's is known by its place", () => {
  expect(isQuestion(one("a", { conversation: "asked-1", call_id: "question" }))).toBe(true);
  expect(isQuestion(one("a", { conversation: "asked-1", call_id: "1.1.0" }))).toBe(false);
});

test("a question is read as far as it is one", () => {
  const asked = { message: "Which?", answer: { row: 1 }, schema: { type: "object" } };
  expect(questionIn(one("a", { arguments: JSON.stringify(asked) }))).toEqual({
    message: "Which?",
    url: "",
    schema: { type: "object" },
    answer: '{"row":1}',
  });
  expect(questionIn(one("a", { arguments: "no JSON" }))).toEqual({ message: "", url: "", schema: null, answer: "{}" });
});

test("what is left is told in two figures at most", () => {
  expect([5, 65, 3_599, 3_700, 86_400, 200_000].map(counted)).toEqual(["5 s", "1:05", "59:59", "1 h 1 min", "1 day", "2 days"]);
});
