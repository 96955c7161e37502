/** The counts in plots and tables, in their order. */

import type { BarSeries } from "../../plots";
import type { Usage } from "./usage";

type Count = "offered" | "picked" | "wrong" | "retried" | "repeated" | "missed" | "failed" | "denied" | "cut_off";

export const COUNT_COLUMNS: readonly (readonly [Count, string])[] = [
  ["offered", "Offered"],
  ["picked", "Picked"],
  ["wrong", "Wrong"],
  ["retried", "Retried"],
  ["repeated", "Repeated"],
  ["missed", "Missed"],
  ["failed", "Failed"],
  ["denied", "Denied"],
  ["cut_off", "Cut off"],
];

export function barsOf(usage: readonly Usage[]): readonly BarSeries[] {
  return [
    { label: "picked", color: "accent", values: usage.map((entry) => entry.picked) },
    { label: "retried", color: "warn", values: usage.map((entry) => entry.retried) },
    { label: "missed", color: "bad", isHollow: true, values: usage.map((entry) => entry.missed) },
  ];
}
