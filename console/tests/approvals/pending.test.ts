import { describe, expect, test } from "vitest";
import { EventParser } from "../../src/api/events";
import type { Approval } from "../../src/api/types";
import { matches } from "../../src/pages/approvals/selection";
import { PendingList } from "../../src/state/pending";

describe("server-sent events", () => {
  const text = ': keep-alive\n\nevent: a\ndata: {"x":1}\n\ndata: 2\n\n';

  test("are the same however the text is cut", () => {
    for (let cut = 0; cut <= text.length; cut += 1) {
      const parser = new EventParser();
      const events = [...parser.feed(text.slice(0, cut)), ...parser.feed(text.slice(cut))];
      expect(events).toEqual([
        { event: "a", data: '{"x":1}' },
        { event: "message", data: "2" },
      ]);
    }
  });
});

describe("the pending list", () => {
  test("changes when all events of a change have come", () => {
    const list = new PendingList();
    const pending = (id: string) => ({ event: "approval.pending", data: JSON.stringify({ id }) });
    expect(list.take(pending("a"))).toBeNull();
    expect(list.take(pending("b"))).toBeNull();
    expect(list.take({ event: "approval.synced", data: "{}" })?.map(({ id }) => id)).toEqual(["a", "b"]);
    list.take({ event: "approval.closed", data: '{"id":"a"}' });
    list.take({ event: "newer", data: "{}" });
    expect(list.take({ event: "approval.synced", data: "{}" })?.map(({ id }) => id)).toEqual(["b"]);
  });
});

test("the filter searches tool, principal, conversation and arguments", () => {
  const approval = { tool: "pay", principal: "ann", conversation: "conv_1", shown: '{"to":"Bob"}' } as Approval;
  for (const text of ["", " PAY ", "ann", "conv_1", "bob"]) expect(matches(approval, text)).toBe(true);
  expect(matches(approval, "eve")).toBe(false);
});
