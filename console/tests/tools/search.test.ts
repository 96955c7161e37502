import { describe, expect, it } from "vitest";
import type { Tool } from "../../src/api/types";
import { groupsOf, searchGroups } from "../../src/pages/tools/groups";
import { mergeMatches } from "../../src/pages/tools/search";

const tool = (name: string, description = ""): Tool => ({
  ...{ object: "tool", name, description, parameters: {}, source: "s", bound_to: null, side_effects: false, fingerprint: "f" },
});
const TOOLS = [tool("mail_send", "Sends a letter."), tool("mail_read"), tool("weather_now"), tool("look")];
const GROUPS = groupsOf(TOOLS, null);
const names = (found: readonly Tool[], query: string) =>
  mergeMatches(found, searchGroups(GROUPS, query), GROUPS).map((one) => one.name);

describe("a search of the tools", () => {
  it("has what the index finds in its order, then names that contain the text", () => {
    expect(names([tool("look"), tool("mail_read")], "mail")).toEqual(["look", "mail_read", "mail_send"]);
  });

  it("finds a name that is typed in part", () => {
    expect(names([], "weath")).toEqual(["weather_now"]);
  });

  it("shows no tool that is no longer listed, and each one once", () => {
    expect(names([tool("gone"), tool("look"), tool("look")], "xyzzy")).toEqual(["look"]);
  });
});
