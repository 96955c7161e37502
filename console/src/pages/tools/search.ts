/** What a search of the tools shows: what the gateway's index finds, then names that contain what was typed so far. */

import type { Tool } from "../../api/types";
import type { Group } from "./groups";

/**
 * The index knows whole words and ranks by them; a name that is typed in part is found here. Found tools that are no
 * longer listed are left out.
 */
export function mergeMatches(found: readonly Tool[], matching: readonly Group[], groups: readonly Group[]): readonly Tool[] {
  const listed = new Map(groups.flatMap((group) => group.tools.map((tool) => [tool.name, tool] as const)));
  const merged = new Map<string, Tool>();
  for (const { name } of found) {
    const tool = listed.get(name);
    if (tool) merged.set(name, tool);
  }
  for (const group of matching) {
    for (const tool of group.tools) if (!merged.has(tool.name)) merged.set(tool.name, tool);
  }
  return [...merged.values()];
}
