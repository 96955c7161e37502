import { describe, expect, test } from "vitest";
import { problemIn, withQuery } from "../../src/api/http";
import { base64url, protocols } from "../../src/api/key";

describe("a refusal", () => {
  test("is read from the body that the gateway sends", () => {
    const body = JSON.stringify({ error: { message: "there is no such approval", code: "approval_unknown" } });
    expect(problemIn(404, body).problem).toEqual({
      code: "approval_unknown",
      message: "there is no such approval",
      hint: "",
      status: 404,
    });
  });

  test.each(["", "<html>", "[]", "null", '{"error": 3}', '{"error": {"message": 3}}'])("is made up from %j", (body) => {
    expect(problemIn(502, body).problem.code).toBe("http_502");
  });
});

describe("an address", () => {
  test("has what was given, escaped, and nothing that was not", () => {
    expect(withQuery("/v1/x", { text: "a&b c", limit: 3, after: undefined })).toBe("/v1/x?text=a%26b+c&limit=3");
    expect(withQuery("/v1/x")).toBe("/v1/x");
  });
});

describe("a key", () => {
  test("is a subprotocol, without what no subprotocol may hold", () => {
    expect(base64url("k\u00fc?>~~")).toMatch(/^[A-Za-z0-9_-]+$/);
    expect(Buffer.from(base64url("fk_schl\u00fcssel?>"), "base64url").toString()).toBe("fk_schl\u00fcssel?>");
    expect(protocols("secret")).toEqual(["ferrule.v1", "ferrule.key.c2VjcmV0"]);
    expect(protocols("")).toEqual([]);
  });
});
