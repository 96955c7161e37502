/** The tools under where they come from. Who may not see the sources sees the tools alone, by the source that each names. */

import type { Source, Tool } from "../../api/types";

export interface Group {
  readonly name: string;
  /** null where the key may not see it. */
  readonly source: Source | null;
  readonly tools: readonly Tool[];
}

export function groupsOf(tools: readonly Tool[], sources: readonly Source[] | null): readonly Group[] {
  const left = new Map(tools.map((tool) => [tool.name, tool]));
  const groups: Group[] = (sources ?? []).map((source) => {
    const own = source.tools.map((name) => left.get(name)).filter((tool) => tool !== undefined);
    for (const tool of own) left.delete(tool.name);
    return { name: source.name, source, tools: own };
  });
  const others = new Map<string, Tool[]>();
  for (const tool of left.values()) others.set(tool.source, [...(others.get(tool.source) ?? []), tool]);
  for (const [name, own] of others) groups.push({ name, source: null, tools: own });
  return groups;
}

/** With only the tools in which all the words occur; a source stays where its own name has them, or something is held back. */
export function searched(groups: readonly Group[], words: string): readonly Group[] {
  const wanted = words.toLowerCase().split(/\s+/).filter((word) => word !== "");
  if (wanted.length === 0) return groups;
  const has = (text: string): boolean => wanted.every((word) => text.toLowerCase().includes(word));
  return groups
    .map((group) => ({
      group: has(group.name) ? group : { ...group, tools: group.tools.filter((one) => has(`${one.name} ${one.description}`)) },
      isNamed: has(group.name),
    }))
    .filter(({ group, isNamed }) => {
      const held = group.source?.quarantined ?? [];
      return isNamed || group.tools.length > 0 || held.some((one) => has(one.tool));
    })
    .map(({ group }) => group);
}
