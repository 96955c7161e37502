import { expect, it } from "vitest";
import type { Enforcement } from "../../src/api/types";
import { matrixOf } from "../../src/pages/tools/matrix";

const told = (model: string, engine: string, holds: Partial<Enforcement>): Enforcement => ({
  ...{ model, engine, target: "", enforced: [], checked: [], unchecked: [], why: "" },
  ...holds,
});

it("every keyword is in one row, with one word for each engine, however many models stand before it", () => {
  const matrix = matrixOf([
    told("big", "here", { target: "lark", enforced: ["type"], checked: ["uniqueItems"] }),
    told("small", "here", { target: "lark", enforced: ["type"], checked: ["uniqueItems"] }),
    told("big", "away", { checked: ["type"], unchecked: ["format"] }),
  ]);
  expect(matrix.columns.map(({ engine, models }) => [engine, models])).toEqual([
    ["here", ["big", "small"]],
    ["away", ["big"]],
  ]);
  expect(matrix.rows).toEqual([
    { keyword: "format", holds: [null, "unchecked"] },
    { keyword: "type", holds: ["enforced", "checked"] },
    { keyword: "uniqueItems", holds: ["checked", null] },
  ]);
});
