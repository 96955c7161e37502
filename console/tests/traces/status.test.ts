import { expect, test } from "vitest";
import { explanationOf, isFailure, STATUS_NAMES, statusOf } from "../../src/pages/traces/status";

test("every status has a label and a sentence that explains it", () => {
  const labels = STATUS_NAMES.map((name) => statusOf(name).label);
  expect(labels).toEqual(["in progress", "waiting", "completed", "incomplete", "failed", "client left", "interrupted"]);
  for (const name of [...STATUS_NAMES, ""]) expect(statusOf(name).meaning).toMatch(/^[A-Z].*\.$/);
});

test("a conversation without a request has an unknown status; a new status keeps its name", () => {
  expect(statusOf("")).toMatchObject({ label: "no request", tone: "plain" });
  expect(statusOf("telepathy")).toEqual({ label: "telepathy", tone: "plain", meaning: "" });
  expect(statusOf("constructor").label).toBe("constructor");
});

test("failed and interrupted ones stand out", () => {
  expect(STATUS_NAMES.filter(isFailure)).toEqual(["failed", "interrupted"]);
  expect(isFailure("")).toBe(false);
});

test("only a request without a complete answer is explained", () => {
  expect(STATUS_NAMES.filter((name) => explanationOf(name) === "")).toEqual(["running", "completed"]);
  expect(explanationOf("left")).toBe("The client disconnected before the end.");
});
