import { expect, it } from "vitest";
import type { Enforcement } from "../../src/api/types";
import { matrixOf } from "../../src/pages/tools/matrix";

const enforcement = (model: string, engine: string, levels: Partial<Enforcement>): Enforcement => ({
  ...{ model, engine, target: "", enforced: [], checked: [], unchecked: [], why: "" },
  ...levels,
});

it("every keyword has one row with one level per engine, however many models it serves", () => {
  const matrix = matrixOf([
    enforcement("big", "here", { target: "lark", enforced: ["type"], checked: ["uniqueItems"] }),
    enforcement("small", "here", { target: "lark", enforced: ["type"], checked: ["uniqueItems"] }),
    enforcement("big", "away", { checked: ["type"], unchecked: ["format"] }),
  ]);
  expect(matrix.columns.map(({ engine, models }) => [engine, models])).toEqual([
    ["here", ["big", "small"]],
    ["away", ["big"]],
  ]);
  expect(matrix.rows).toEqual([
    { keyword: "format", levels: [null, "unchecked"] },
    { keyword: "type", levels: ["enforced", "checked"] },
    { keyword: "uniqueItems", levels: ["checked", null] },
  ]);
});
