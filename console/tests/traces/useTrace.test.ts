import { afterEach, describe, expect, test, vi } from "vitest";
import type { Conversation, Trace, TraceRequest } from "../../src/api/types";
import { auditStateOf } from "../../src/pages/traces/auditState";
import { sectionNames } from "../../src/pages/traces/section";
import {
  isCurrent,
  isInProgress,
  loadTrace,
  readable,
  revisionOf,
  type LoadedConversation,
} from "../../src/pages/traces/useTrace";

const request = (id: string, conversation: string, status: TraceRequest["status"]): TraceRequest =>
  ({ id, conversation, status }) as TraceRequest;
const trace = (conversations: readonly string[], requests: readonly TraceRequest[] = [], status = "completed"): Trace =>
  ({ object: "trace", id: "t", status, conversations, requests }) as unknown as Trace;
const conversation = (id: string, isHeld = false, holds = true): Conversation => {
  const audit = { rows: [], chain: { holds, breach: "" } };
  return { object: "conversation", id, is_held: isHeld, audit } as unknown as Conversation;
};
const fetched = (value: Conversation, revision = "[]"): LoadedConversation => ({ result: { ok: true, value }, revision });
const missing: LoadedConversation = {
  result: { ok: false, problem: { code: "not_found", message: "", hint: "", status: 404 } },
  revision: "[]",
};

describe("a trace is fetched", () => {
  afterEach(() => vi.unstubAllGlobals());

  /** Answers with the body and status of each path, and returns the paths that were requested. */
  function stubFetch(answers: Readonly<Record<string, readonly [status: number, body: unknown]>>): string[] {
    const paths: string[] = [];
    vi.stubGlobal("fetch", (path: string) => {
      paths.push(path);
      const [status, body] = answers[path] ?? [404, { error: { message: `${path} is missing`, code: "not_found" } }];
      return Promise.resolve(new Response(JSON.stringify(body), { status }));
    });
    return paths;
  }

  test("with one request if the key can see it", async () => {
    const paths = stubFetch({ "/v1/traces/c": [200, trace(["c"])] });
    expect(await loadTrace("c")).toMatchObject({ ok: true, value: { object: "trace", id: "t" } });
    expect(paths).toEqual(["/v1/traces/c"]);
  });

  test("as a conversation alone if the key can only see that", async () => {
    stubFetch({ "/v1/conversations/c": [200, conversation("c")] });
    expect(await loadTrace("c")).toMatchObject({ ok: true, value: { object: "conversation", id: "c" } });
  });

  test("with the trace's problem if the key can see neither", async () => {
    stubFetch({});
    expect(await loadTrace("c")).toMatchObject({ ok: false, problem: { message: "/v1/traces/c is missing" } });
  });

  test("and another problem is not hidden by the conversation", async () => {
    const paths = stubFetch({ "/v1/traces/c": [503, {}], "/v1/conversations/c": [200, conversation("c")] });
    expect(await loadTrace("c")).toMatchObject({ ok: false, problem: { status: 503 } });
    expect(paths).toEqual(["/v1/traces/c"]);
  });
});

describe("polling", () => {
  test("fetches a conversation again only if it may have changed", () => {
    const before = trace(["c"], [request("1", "c", "completed"), request("2", "d", "running")]);
    const loaded = fetched(conversation("c"), revisionOf(before, "c"));
    expect(isCurrent(loaded, before, "c")).toBe(true);
    expect(isCurrent(undefined, before, "c")).toBe(false);
    expect(isCurrent({ ...missing, revision: loaded.revision }, before, "c")).toBe(true);
    const after = trace(["c"], [...before.requests, request("3", "c", "completed")]);
    expect(isCurrent(loaded, after, "c")).toBe(false);
  });

  test("fetches a conversation that is held or whose request runs", () => {
    const idle = trace(["c"]);
    expect(isCurrent(fetched(conversation("c", true)), idle, "c")).toBe(false);
    const running = trace(["c"], [request("1", "c", "running")]);
    expect(isCurrent(fetched(conversation("c"), revisionOf(running, "c")), running, "c")).toBe(false);
  });

  test("continues while a request runs or a conversation is held", () => {
    const loaded = new Map([["c", fetched(conversation("c", true))]]);
    expect(isInProgress(null, loaded)).toBe(false);
    expect(isInProgress(trace([], [], "running"), new Map())).toBe(true);
    expect(isInProgress(trace(["c"], [], ""), loaded)).toBe(true);
    expect(isInProgress(trace(["c"]), new Map())).toBe(false);
    expect(isInProgress(conversation("c", true), new Map())).toBe(true);
  });
});

describe("several conversations", () => {
  const loaded = new Map([
    ["a", fetched(conversation("a"))],
    ["b", fetched(conversation("b", false, false))],
    ["c", missing],
  ]);

  test("are listed in the trace's order, without those that could not be fetched", () => {
    expect(readable(trace(["c", "b", "a", "d"]), loaded).map((one) => one.id)).toEqual(["b", "a"]);
  });

  test("have one audit state, which links to the first broken one", () => {
    expect(auditStateOf(trace(["a"]), loaded)).toEqual({ verified: 1, total: 1, isBroken: false, number: null });
    expect(auditStateOf(trace(["a", "b"]), loaded)).toEqual({ verified: 1, total: 2, isBroken: true, number: 2 });
    expect(auditStateOf(trace(["a", "c"]), loaded)).toEqual({ verified: 1, total: 2, isBroken: false, number: 1 });
  });

  test("have different ids and a heading each; a single one has none", () => {
    expect(sectionNames("audit", null)).toMatchObject({ id: "audit", labelledBy: "audit-title", Heading: "h2" });
    expect(sectionNames("audit", 2)).toEqual({
      ...{ id: "audit-2", titleId: "audit-title-2", labelledBy: "audit-title-2 conversation-2", Heading: "h3" },
    });
  });
});
