import { afterEach, expect, test, vi } from "vitest";
import * as gateway from "../../src/api/gateway";

const sent: { readonly path: string; readonly body: unknown }[] = [];

function answering(): void {
  sent.length = 0;
  vi.stubGlobal("fetch", (path: string, init: RequestInit) => {
    sent.push({ path, body: init.body });
    return Promise.resolve(new Response("{}", { status: 200 }));
  });
}

afterEach(() => vi.unstubAllGlobals());

test("changed arguments are sent as they are written, to the last digit", async () => {
  answering();
  const args = '{"account": 12345678901234567890, "amount": 10.0}';
  await gateway.approveWith("a/b", args);
  await gateway.checkArguments("a/b", args);
  expect(sent).toEqual([
    { path: "/v1/approvals/a%2Fb", body: `{"approve":true,"arguments":${args}}` },
    { path: "/v1/approvals/a%2Fb/check", body: `{"arguments":${args}}` },
  ]);
});

test("a word without arguments has none in it", async () => {
  answering();
  await gateway.decide("a", { approve: false, why: "no" });
  expect(sent).toEqual([{ path: "/v1/approvals/a", body: '{"approve":false,"why":"no"}' }]);
});
