import { describe, expect, test } from "vitest";
import { parseRoute, pathTo } from "../src/router";

describe("a path", () => {
  test.each([
    ["/console/", "", ""],
    ["/console/chat", "chat", ""],
    ["/console/traces/conv_1", "traces", "conv_1"],
    ["/console/tools/a%2Fb%20c", "tools", "a/b c"],
    ["/console/tools/%E0%A4%A", "tools", "%E0%A4%A"],
    ["/elsewhere", "", ""],
  ])("%s is parsed", (path, page, id) => {
    expect(parseRoute(path)).toMatchObject({ page, id });
  });

  test("survives a round trip", () => {
    const href = pathTo("traces", "conv/1 ?#", { text: "a&b" });
    const [path = "", search = ""] = href.split("?", 2);
    const parsed = parseRoute(path, search);
    expect([parsed.page, parsed.id, parsed.query.get("text")]).toEqual(["traces", "conv/1 ?#", "a&b"]);
  });
});
