import { describe, expect, it } from "vitest";
import type { ApiKey } from "../../src/api/keyTypes";
import type { Principal } from "../../src/api/types";
import {
  appendNew,
  canRotate,
  emptyDraft,
  hasEnded,
  isOwn,
  newKeyOf,
  parsePatterns,
  rotationOf,
  siblings,
  stateOf,
} from "../../src/pages/keys/keys";

const DAY = 86_400;
const NOW = 1_000 * DAY;
const key = (id: string, more: Partial<ApiKey> = {}): ApiKey => ({
  ...{ object: "key", id, name: "app", tenant: "acme", status: "active", models: ["*"], tools: [], sources: ["*"] },
  ...{ approve: false, admin: false, operator: false, live_arguments: false, rate: 0, width: 0 },
  ...{ created_at: NOW - DAY, created_by: "ann", expires_at: null, last_used_at: null },
  ...{ revoked_at: null, revoked_by: "", replaced_by: "" },
  ...more,
});
const principal = (more: Partial<Principal> = {}): Principal => ({
  ...{ object: "principal", name: "app", tenant: "acme", rights: [], needs_key: true, quotas: [] },
  ...more,
});

describe("the state of a key", () => {
  it.each([
    ["active", {}],
    ["active", { expires_at: NOW + 30 * DAY }],
    ["expiring", { expires_at: NOW + 6 * DAY }],
    ["rotated", { expires_at: NOW + 60, replaced_by: "k2" }],
    ["revoked", { status: "revoked", expires_at: NOW - 1 }],
    ["expired", { status: "expired", expires_at: NOW - 1, replaced_by: "k2" }],
  ] as const)("is %s for %j", (state, more) => {
    expect(stateOf(key("k", more), NOW)).toBe(state);
  });

  it("changes with the time, also if the page has not fetched the key again", () => {
    const expiring = key("k", { expires_at: NOW + 60 });
    expect(hasEnded(expiring, NOW + 59)).toBe(false);
    expect(hasEnded(expiring, NOW + 60)).toBe(true);
  });

  it("allows one rotation, and none of a key that has ended", () => {
    expect(canRotate(key("k"), NOW)).toBe(true);
    expect(canRotate(key("k", { replaced_by: "k2", expires_at: NOW + 60 }), NOW)).toBe(false);
    expect(canRotate(key("k", { status: "revoked" }), NOW)).toBe(false);
  });
});

describe("keys of one principal", () => {
  it("have the same name and tenant, and those that have ended do not count", () => {
    const keys = [
      key("k1"),
      key("k2"),
      key("k3", { status: "revoked" }),
      key("k4", { tenant: "evil" }),
      key("k5", { name: "other" }),
    ];
    expect(siblings(keys[0]!, keys, NOW).map(({ id }) => id)).toEqual(["k2"]);
  });

  it("may include the one that the page uses, unless the gateway needs none", () => {
    expect(isOwn(key("k"), principal())).toBe(true);
    expect(isOwn(key("k"), principal({ tenant: "evil" }))).toBe(false);
    expect(isOwn(key("k"), principal({ needs_key: false }))).toBe(false);
    expect(isOwn(key("k"), null)).toBe(false);
  });
});

describe("the form of a new key", () => {
  it("offers nothing that was not chosen: no tools, no rights, an expiry", () => {
    expect(newKeyOf({ ...emptyDraft(false), name: "  app " })).toEqual({
      ...{ name: "app", models: ["*"], tools: [], sources: ["*"], approve: false, admin: false, operator: false },
      ...{ rate: 0, width: 0, expires_in: 90 * DAY },
    });
  });

  it("begins with an admin's key while the gateway needs none, so that nobody locks themselves out", () => {
    expect(emptyDraft(true)).toMatchObject({ admin: true, approve: true, tools: "*", operator: false });
  });

  it("sends patterns as a list, limits as numbers, and no expiry for never", () => {
    const draft = { ...emptyDraft(false), name: "app", tools: "get_*, ,find\nget_*", rate: "60", width: "2", expiry: 0 };
    const body = newKeyOf(draft);
    expect(body).toMatchObject({ tools: ["get_*", "find"], rate: 60, width: 2 });
    expect(body).not.toHaveProperty("expires_in");
    expect(parsePatterns(" , ")).toEqual([]);
  });

  it("rotates with an overlap, of which 0 is one too", () => {
    expect(rotationOf(0, 0)).toEqual({ overlap_seconds: 0 });
    expect(rotationOf(3600, DAY)).toEqual({ overlap_seconds: 3600, expires_in: DAY });
  });
});

it("a page of the list adds each key once", () => {
  expect(appendNew([key("k2"), key("k1")], [key("k1"), key("k0")]).map(({ id }) => id)).toEqual(["k2", "k1", "k0"]);
});
