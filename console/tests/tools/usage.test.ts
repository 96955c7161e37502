import { describe, expect, it } from "vitest";
import type { ToolStats } from "../../src/api/types";
import { byDefinition, byTool, modelsIn, formatShare } from "../../src/pages/tools/usage";

const NONE = {
  ...{ offered: 0, demanded: 0, picked: 0, repaired: 0, refused: 0, cut_off: 0, failed: 0, denied: 0, retried: 0 },
  ...{ repeated: 0, missed: 0, wrong: 0, wrong_share: null, description: "", first_at: null, last_at: null },
};
const stats = (model: string, tool: string, fingerprint: string, more: Partial<ToolStats>): ToolStats => ({
  ...{ object: "tool.stats", model, tool, fingerprint },
  ...NONE,
  ...more,
});

const LINES = [
  stats("a", "look", "f1", { offered: 4, picked: 2, wrong: 1, refused: 1, first_at: 5, last_at: 9, description: "Old." }),
  stats("b", "look", "f2", { offered: 3, picked: 3, missed: 1, first_at: 10, last_at: 20, description: "New." }),
  stats("a", "pay", "f3", { offered: 9, retried: 1, picked: 1 }),
  stats("a", "", "", { missed: 2 }),
];

describe("usage", () => {
  it("is summed by tool over models and definitions, the most picked first", () => {
    const usage = byTool(LINES);
    expect(usage.map((one) => [one.name, one.offered, one.picked, one.missed])).toEqual([
      ["look", 7, 5, 1],
      ["pay", 9, 1, 0],
      ["", 0, 0, 2],
    ]);
    expect(usage[0]).toMatchObject({ wrong_share: 1 / 6, firstAt: 5, lastAt: 20, description: "New." });
  });

  it("can be limited to one model", () => {
    expect(byTool(LINES, "b").map((one) => [one.name, one.picked])).toEqual([["look", 3]]);
    expect(modelsIn(LINES)).toEqual(["a", "b"]);
  });

  it("is listed by definition, the newest first", () => {
    const look = LINES.filter((one) => one.tool === "look");
    expect(byDefinition(look).map((one) => one.name)).toEqual(["f2", "f1"]);
  });

  it("has a share only if there were calls", () => {
    expect([formatShare(0, 0), formatShare(1, 3), formatShare(1, 1000), formatShare(0, 5)]).toEqual(["–", "33 %", "< 1 %", "0 %"]);
  });
});
