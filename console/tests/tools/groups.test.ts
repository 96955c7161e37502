import { describe, expect, it } from "vitest";
import type { Source, Tool } from "../../src/api/types";
import { groupsOf, searched } from "../../src/pages/tools/groups";

const tool = (name: string, source: string, description = ""): Tool => ({
  ...{ object: "tool", name, description, parameters: {}, source, bound_to: null, side_effects: false, fingerprint: "f" },
});
const source = (name: string, tools: readonly string[], held: readonly string[] = []): Source => ({
  ...{ object: "source", name, kind: "mcp", state: "ready", why: "", trust: "untrusted", tools },
  quarantined: held.map((one) => ({
    ...{ tool: one, why: "changed", before: null },
    now: { description: "", parameters: {}, fingerprint: "", more: {} },
  })),
});
const TOOLS = [tool("mail_send", "mcp", "Sends a letter."), tool("look", "python"), tool("lost", "mcp")];
const told = (groups: ReturnType<typeof groupsOf>) => groups.map((one) => [one.name, one.tools.map(({ name }) => name)]);

describe("tools by source", () => {
  it("stand under their source, and those of none under the word that they name", () => {
    const groups = groupsOf(TOOLS, [source("mail", ["mail_send", "not offered to this key"]), source("gone", [])]);
    expect(told(groups)).toEqual([
      ["mail", ["mail_send"]],
      ["gone", []],
      ["python", ["look"]],
      ["mcp", ["lost"]],
    ]);
  });

  it("are all there for who may not see sources", () => {
    expect(told(groupsOf(TOOLS, null))).toEqual([
      ["mcp", ["mail_send", "lost"]],
      ["python", ["look"]],
    ]);
  });

  it("are found by words of the name, the description, the source and what is held back", () => {
    const groups = groupsOf(TOOLS, [source("mail", ["mail_send"], ["mail_read"])]);
    expect(told(searched(groups, "  LETTER send "))).toEqual([["mail", ["mail_send"]]]);
    expect(told(searched(groups, "mail_read"))).toEqual([["mail", []]]);
    expect(told(searched(groups, "python"))).toEqual([["python", ["look"]]]);
    expect(searched(groups, "")).toBe(groups);
  });
});
