import { describe, expect, test } from "vitest";
import type { TraceSummary } from "../../src/api/types";
import { appendNew, parseSearch, PERIODS, searchQuery, traceQuery, type SearchTerms } from "../../src/pages/traces/search";
import { STATUS_NAMES } from "../../src/pages/traces/status";

const NONE: SearchTerms = { text: "", status: "", tool: "", principal: "", time: "" };
const NOW = 1_700_000_000.75;
const trace = (id: string): TraceSummary => ({ id }) as TraceSummary;

describe("a search", () => {
  test("survives a round trip through the URL", () => {
    const terms = { text: "rent & more", status: "failed", tool: "pay", principal: "", time: "day" };
    expect(parseSearch(new URLSearchParams(searchQuery(terms)))).toEqual(terms);
    expect(searchQuery({ ...NONE, text: " " })).toEqual({});
  });

  test.each(STATUS_NAMES)("knows the status %s", (status) => {
    expect(parseSearch(new URLSearchParams({ status })).status).toBe(status);
  });

  test.each(["paused", "constructor", "__proto__"])("ignores %s as a status and as a time", (word) => {
    expect(parseSearch(new URLSearchParams({ status: word, time: word }))).toEqual(NONE);
  });
});

describe("the query for the gateway", () => {
  test("has the filled fields, and the beginning of the period instead of its name", () => {
    const terms = { ...NONE, text: " rent ", status: "waiting", principal: "ann", time: "hour" };
    expect(traceQuery(terms, NOW)).toEqual({ text: "rent", status: "waiting", principal: "ann", since: 1_699_996_400 });
  });

  test("has no beginning for any time", () => {
    expect(traceQuery({ ...NONE, tool: "pay" }, NOW)).toEqual({ tool: "pay" });
  });

  test("is about an hour, a day and a week", () => {
    const ages = Object.keys(PERIODS).map((time) => 1_700_000_000 - (traceQuery({ ...NONE, time }, NOW).since ?? 0));
    expect(ages).toEqual([3_600, 86_400, 604_800]);
  });
});

test("a trace that moved to the next page is listed once", () => {
  const ids = appendNew([trace("a"), trace("b")], [trace("b"), trace("c")]).map((one) => one.id);
  expect(ids).toEqual(["a", "b", "c"]);
});
