/** Text of others: always a text node, with every hidden character drawn as a mark that can be read and heard. */

import { useMemo } from "preact/hooks";
import { segments, type Manner, type Segment } from "../text/hidden";

interface Props {
  readonly text: string;
  /** `exact` (for what somebody decides by) or `prose` (for what is read). */
  readonly manner?: Manner;
}

/** The same text is looked through once, however often what stands around it is drawn. */
export function Shown({ text, manner = "prose" }: Props) {
  return useMemo(() => <span class="shown">{segments(text, manner).map(drawn)}</span>, [text, manner]);
}

function drawn(one: Segment, at: number) {
  if (!("hidden" in one)) return one.text;
  return (
    <span key={at} class="hidden-mark" title={`${one.code} ${one.name}`} role="img" aria-label={one.name}>
      {one.code}
    </span>
  );
}
