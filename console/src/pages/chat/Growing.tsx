import { Shown } from "../../parts/Shown";
import type { Manner } from "../../text/hidden";
import type { Blocks } from "./blocks";

interface Props {
  readonly text: Blocks;
  /** Of what it is part of: a component whose props are the same is not drawn again. */
  readonly version: number;
  readonly manner?: Manner;
  /** Pieces that end with a line stand by themselves, so that a new word moves none of them. */
  readonly isApart?: boolean;
}

/** A text that grows: finished pieces are drawn once, and only the last one again. */
export function Growing({ text, manner = "prose", isApart = false }: Props) {
  return (
    <>
      {text.whole.map((block, at) =>
        isApart && block.endsWith("\n") ? (
          <div key={at} class="lines">
            <Shown text={block} manner={manner} />
          </div>
        ) : (
          <Shown key={at} text={block} manner={manner} />
        ),
      )}
      <Shown key="last" text={text.last} manner={manner} />
    </>
  );
}
