import { describe, expect, it } from "vitest";
import type { QuotaUse } from "../../src/api/keyTypes";
import {
  amountText,
  levelOf,
  percentOf,
  remainingText,
  resetText,
  scopeText,
  shareOf,
  timed,
} from "../../src/pages/limits/quotas";

const quota = (more: Partial<QuotaUse> = {}): QuotaUse => ({
  ...{ name: "tokens-of-a-key", counts: "tokens", per: "day", each: "key", most: 2000, used: 500, remaining: 1500 },
  ...{ seconds_left: 3600 },
  ...more,
});

describe("the level of a quota", () => {
  it.each([
    [0, "0 % used", "plain"],
    [1599, "79 % used", "plain"],
    [1600, "80 % used", "warn"],
    [1999.9, "99 % used", "warn"],
    [2000, "used up", "bad"],
    [2750, "used up", "bad"],
  ])("with %d of 2000 used is %s", (used, label, tone) => {
    expect(levelOf(quota({ used }))).toEqual({ label, tone });
  });

  it("never draws more than the whole bar, and a quota of nothing is used up", () => {
    expect(shareOf(quota({ used: 9000 }))).toBe(1);
    expect(percentOf(quota({ used: 9000 }))).toBe(100);
    expect(levelOf(quota({ most: 0, used: 0 })).label).toBe("used up");
  });
});

describe("the text of a quota", () => {
  it("has the used amount, the limit and the rest, in the unit that is counted", () => {
    expect(amountText(quota({ used: 1204, most: 2_000_000 }))).toBe("1,204 of 2,000,000 tokens");
    expect(amountText(quota({ counts: "effects", most: 20, used: 3 }))).toBe("3 of 20 tool calls with side effects");
    expect(remainingText(quota({ remaining: 1500 }))).toBe("1,500 left");
  });

  it("has no unit for money, and shows a small amount", () => {
    expect(amountText(quota({ counts: "money", most: 50, used: 0.0125 }))).toBe("0.0125 of 50");
  });

  it("says for whom it is counted, also if the gateway is newer than the page", () => {
    expect(scopeText(quota())).toBe("tokens per day, counted for your key alone");
    expect(scopeText(quota({ each: "tenant", per: "hour" }))).toContain("per hour, counted for all keys of your tenant");
    expect(scopeText(quota({ counts: "pages", each: "team" }))).toBe("pages per day, counted for each team");
  });
});

describe("the end of a period", () => {
  it("is counted from the response, by the clock of the browser", () => {
    const [one] = timed([quota({ seconds_left: 90 })], 1000);
    expect(one?.endsAt).toBe(1090);
    expect(resetText(1090, 1000)).toBe("resets in 1 min 30 s");
    expect(resetText(1090, 1030.5)).toBe("resets in 1 min 0 s");
    expect(resetText(1090, 1089.2)).toBe("resets in 1 s");
    expect(resetText(1090, 1090)).toBe("resets now");
    expect(resetText(1090, 1200)).toBe("resets now");
  });
});
