import { afterEach, expect, test, vi } from "vitest";
import * as gateway from "../../src/api/gateway";

const requests: { readonly path: string; readonly body: unknown }[] = [];

function stubFetch(): void {
  requests.length = 0;
  vi.stubGlobal("fetch", (path: string, init: RequestInit) => {
    requests.push({ path, body: init.body });
    return Promise.resolve(new Response("{}", { status: 200 }));
  });
}

afterEach(() => vi.unstubAllGlobals());

test("edited arguments are sent unchanged, to the last digit", async () => {
  stubFetch();
  const args = '{"account": 12345678901234567890, "amount": 10.0}';
  await gateway.approveWith("a/b", args, "0a");
  await gateway.checkArguments("a/b", args);
  expect(requests).toEqual([
    { path: "/v1/approvals/a%2Fb", body: `{"approve":true,"arguments_sha256":"0a","arguments":${args}}` },
    { path: "/v1/approvals/a%2Fb/check", body: `{"arguments":${args}}` },
  ]);
});

test("a decision without arguments sends none", async () => {
  stubFetch();
  await gateway.decide("a", { approve: false, why: "no" });
  expect(requests).toEqual([{ path: "/v1/approvals/a", body: '{"approve":false,"why":"no"}' }]);
});

test("traces are searched with the given terms only, and an id is escaped", async () => {
  stubFetch();
  await gateway.traces({ status: "failed", since: 60, limit: 30 });
  await gateway.trace("a/b");
  expect(requests.map((request) => request.path)).toEqual([
    "/v1/traces?status=failed&since=60&limit=30",
    "/v1/traces/a%2Fb",
  ]);
});

test("a key is addressed by its id, and its requests have what the forms give", async () => {
  stubFetch();
  await gateway.keys({ limit: 50, after: "key_1" });
  await gateway.createKey({ name: "<b>app</b>", tools: ["get_*"] });
  await gateway.rotateKey("key/1", { overlap_seconds: 60 });
  await gateway.revokeKey("key/1");
  expect(requests).toEqual([
    { path: "/v1/keys?limit=50&after=key_1", body: undefined },
    { path: "/v1/keys", body: '{"name":"<b>app</b>","tools":["get_*"]}' },
    { path: "/v1/keys/key%2F1/rotate", body: '{"overlap_seconds":60}' },
    { path: "/v1/keys/key%2F1/revoke", body: "{}" },
  ]);
});
