import { describe, expect, it } from "vitest";
import type { Source, Tool } from "../../src/api/types";
import { groupsOf, searchGroups } from "../../src/pages/tools/groups";

const tool = (name: string, source: string, description = ""): Tool => ({
  ...{ object: "tool", name, description, parameters: {}, source, bound_to: null, side_effects: false, fingerprint: "f" },
});
const source = (name: string, tools: readonly string[], quarantined: readonly string[] = []): Source => ({
  ...{ object: "source", name, kind: "mcp", state: "ready", why: "", trust: "untrusted", tools },
  quarantined: quarantined.map((one) => ({
    ...{ tool: one, why: "changed", before: null },
    now: { description: "", parameters: {}, fingerprint: "", more: {} },
  })),
});
const TOOLS = [tool("mail_send", "mcp", "Sends a letter."), tool("look", "python"), tool("lost", "mcp")];
const toolNames = (groups: ReturnType<typeof groupsOf>) => groups.map((one) => [one.name, one.tools.map(({ name }) => name)]);

describe("tools by source", () => {
  it("are grouped under their source, or under the source that they name", () => {
    const groups = groupsOf(TOOLS, [source("mail", ["mail_send", "not offered to this key"]), source("gone", [])]);
    expect(toolNames(groups)).toEqual([
      ["mail", ["mail_send"]],
      ["gone", []],
      ["python", ["look"]],
      ["mcp", ["lost"]],
    ]);
  });

  it("are complete for a key that cannot see sources", () => {
    expect(toolNames(groupsOf(TOOLS, null))).toEqual([
      ["mcp", ["mail_send", "lost"]],
      ["python", ["look"]],
    ]);
  });

  it("are found by name, description, source and quarantined tools", () => {
    const groups = groupsOf(TOOLS, [source("mail", ["mail_send"], ["mail_read"])]);
    expect(toolNames(searchGroups(groups, "  LETTER send "))).toEqual([["mail", ["mail_send"]]]);
    expect(toolNames(searchGroups(groups, "mail_read"))).toEqual([["mail", []]]);
    expect(toolNames(searchGroups(groups, "python"))).toEqual([["python", ["look"]]]);
    expect(searchGroups(groups, "")).toBe(groups);
  });
});
