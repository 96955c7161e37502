import { VisibleText } from "../../parts/VisibleText";
import type { TextMode } from "../../text/hiddenCharacters";
import type { TextBlocks } from "./textBlocks";

interface Props {
  readonly text: TextBlocks;
  /** The version of the parent item. A component with unchanged props would not be rendered again. */
  readonly version: number;
  readonly mode?: TextMode;
  /** Renders blocks that end with a line break as separate elements, so that new text does not lay them out again. */
  readonly separateLines?: boolean;
}

/** Text that is being streamed: finished blocks are rendered once, only the last block is rendered again. */
export function StreamingText({ text, mode: mode = "prose", separateLines: separateLines = false }: Props) {
  return (
    <>
      {text.finished.map((block, index) =>
        separateLines && block.endsWith("\n") ? (
          <div key={index} class="text-lines">
            <VisibleText text={block} mode={mode} />
          </div>
        ) : (
          <VisibleText key={index} text={block} mode={mode} />
        ),
      )}
      <VisibleText key="last" text={text.last} mode={mode} />
    </>
  );
}
