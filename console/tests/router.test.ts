import { describe, expect, test } from "vitest";
import { placeOf, to } from "../src/router";

describe("a path", () => {
  test.each([
    ["/console/", "", ""],
    ["/console/chat", "chat", ""],
    ["/console/traces/conv_1", "traces", "conv_1"],
    ["/console/tools/a%2Fb%20c", "tools", "a/b c"],
    ["/console/tools/%E0%A4%A", "tools", "%E0%A4%A"],
    ["/elsewhere", "", ""],
  ])("%s is a place", (path, page, id) => {
    expect(placeOf(path)).toMatchObject({ page, id });
  });

  test("that is made is read back", () => {
    const href = to("traces", "conv/1 ?#", { text: "a&b" });
    const [path = "", search = ""] = href.split("?", 2);
    const found = placeOf(path, search);
    expect([found.page, found.id, found.query.get("text")]).toEqual(["traces", "conv/1 ?#", "a&b"]);
  });
});
