/** Which figures are drawn and listed, in which order, for every plot and table of them. */

import type { BarSeries } from "../../plots";
import type { Figures } from "./figures";

type Count = "offered" | "picked" | "wrong" | "retried" | "repeated" | "missed" | "failed" | "denied" | "cut_off";

export const COUNTED: readonly (readonly [Count, string])[] = [
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

export function barsOf(found: readonly Figures[]): readonly BarSeries[] {
  return [
    { word: "picked", ink: "accent", values: found.map((one) => one.picked) },
    { word: "retried", ink: "warn", values: found.map((one) => one.retried) },
    { word: "missed", ink: "bad", isHollow: true, values: found.map((one) => one.missed) },
  ];
}
