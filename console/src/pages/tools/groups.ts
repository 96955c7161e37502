/** Groups tools by source. A key that cannot see sources gets the tools grouped by the source that each tool names. */

import type { Source, Tool } from "../../api/types";

export interface Group {
  readonly name: string;
  /** Null if the key cannot see it. */
  readonly source: Source | null;
  readonly tools: readonly Tool[];
}

export function groupsOf(tools: readonly Tool[], sources: readonly Source[] | null): readonly Group[] {
  const remaining = new Map(tools.map((tool) => [tool.name, tool]));
  const groups: Group[] = (sources ?? []).map((source) => {
    const own = source.tools.map((name) => remaining.get(name)).filter((tool) => tool !== undefined);
    for (const tool of own) remaining.delete(tool.name);
    return { name: source.name, source, tools: own };
  });
  const others = new Map<string, Tool[]>();
  for (const tool of remaining.values()) others.set(tool.source, [...(others.get(tool.source) ?? []), tool]);
  for (const [name, own] of others) groups.push({ name, source: null, tools: own });
  return groups;
}

/** Keeps the tools that contain all the words, and sources whose name or quarantined tools contain them. */
export function searchGroups(groups: readonly Group[], query: string): readonly Group[] {
  const terms = query.toLowerCase().split(/\s+/).filter((term) => term !== "");
  if (terms.length === 0) return groups;
  const matches = (text: string): boolean => terms.every((term) => text.toLowerCase().includes(term));
  return groups
    .map((group) => ({
      group: matches(group.name)
        ? group
        : { ...group, tools: group.tools.filter((tool) => matches(`${tool.name} ${tool.description}`)) },
      isNamed: matches(group.name),
    }))
    .filter(({ group, isNamed }) => {
      const quarantined = group.source?.quarantined ?? [];
      return isNamed || group.tools.length > 0 || quarantined.some((item) => matches(item.tool));
    })
    .map(({ group }) => group);
}
