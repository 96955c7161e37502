import { describe, expect, test } from "vitest";
import { parseProblem, withQuery } from "../../src/api/http";
import { base64url, protocols } from "../../src/api/key";

describe("an error response", () => {
  test("is parsed from the gateway's error body", () => {
    const body = JSON.stringify({ error: { message: "there is no such approval", code: "approval_unknown" } });
    expect(parseProblem(404, body).problem).toEqual({
      code: "approval_unknown",
      message: "there is no such approval",
      hint: "",
      status: 404,
    });
  });

  test.each(["", "<html>", "[]", "null", '{"error": 3}', '{"error": {"message": 3}}'])(
    "gets a code from the status if the body is %j",
    (body) => {
      expect(parseProblem(502, body).problem.code).toBe("http_502");
    },
  );
});

describe("a URL", () => {
  test("contains the given parameters, escaped, and no undefined ones", () => {
    expect(withQuery("/v1/x", { text: "a&b c", limit: 3, after: undefined })).toBe("/v1/x?text=a%26b+c&limit=3");
    expect(withQuery("/v1/x")).toBe("/v1/x");
  });
});

describe("an API key", () => {
  test("is encoded as a valid subprotocol", () => {
    expect(base64url("k\u00fc?>~~")).toMatch(/^[A-Za-z0-9_-]+$/);
    expect(Buffer.from(base64url("fk_schl\u00fcssel?>"), "base64url").toString()).toBe("fk_schl\u00fcssel?>");
    expect(protocols("secret")).toEqual(["ferrule.v1", "ferrule.key.c2VjcmV0"]);
    expect(protocols("")).toEqual([]);
  });
});
