/** Untrusted text: always a text node, with every hidden character as a marker that screen readers announce. */

import { useMemo } from "preact/hooks";
import { segments, type TextMode, type Segment } from "../text/hiddenCharacters";

interface Props {
  readonly text: string;
  /** `exact` for text that decisions depend on, `prose` for other text. */
  readonly mode?: TextMode;
}

/** Memoized: the same text is scanned once, however often its parent renders. */
export function VisibleText({ text, mode: mode = "prose" }: Props) {
  return useMemo(() => <span class="visible-text">{segments(text, mode).map(renderSegment)}</span>, [text, mode]);
}

function renderSegment(segment: Segment, index: number) {
  if (!("hidden" in segment)) return segment.text;
  return (
    <span key={index} class="hidden-marker" title={`${segment.code} ${segment.name}`} role="img" aria-label={segment.name}>
      {segment.code}
    </span>
  );
}
