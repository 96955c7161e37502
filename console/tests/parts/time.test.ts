import { expect, test } from "vitest";
import { ago } from "../../src/parts/Time";

const DAY = 86_400;

test.each([
  [-1, "1 sec. ago"],
  [-119, "1 min. ago"],
  [-2 * DAY + 1, "yesterday"],
  [90 * DAY - 3, "in 90 days"],
  [DAY - 3, "in 24 hr."],
  [59.6, "in 60 sec."],
  [0, "now"],
])("%d seconds from now is %s", (seconds, text) => {
  expect(ago(1000 * DAY + seconds, 1000 * DAY)).toBe(text);
});
