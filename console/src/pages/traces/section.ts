/** Headings and ids of a conversation's sections. They are unique, even if a trace has several conversations. */

import type { Conversation } from "../../api/types";

export interface SectionProps {
  readonly conversation: Conversation;
  /** The conversation's number in its trace, from 1; null if it is the only one and has no heading. */
  readonly number: number | null;
}

export interface SectionNames {
  readonly id: string;
  readonly titleId: string;
  /** The ids of the headings that name it. */
  readonly labelledBy: string;
  readonly Heading: "h2" | "h3";
}

export function sectionNames(name: string, number: number | null): SectionNames {
  if (number === null) return { id: name, titleId: `${name}-title`, labelledBy: `${name}-title`, Heading: "h2" };
  const [id, titleId] = [`${name}-${number}`, `${name}-title-${number}`];
  return { id, titleId, labelledBy: `${titleId} ${conversationTitleId(number)}`, Heading: "h3" };
}

export function conversationTitleId(number: number): string {
  return `conversation-${number}`;
}
