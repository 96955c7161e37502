/** Two texts compared line by line, with hidden characters marked. Unchanged lines are folded. */

import { useMemo, useState } from "preact/hooks";
import { diffLines, isSame, type DiffLine } from "../text/diff";
import { VisibleText } from "./VisibleText";
import "./Diff.css";

interface Props {
  readonly label: string;
  readonly before: string;
  readonly after: string;
}

/** The number of unchanged lines around each change. */
const CONTEXT_LINES = 3;
const SIGNS = { same: " ", removed: "−", added: "+" } as const;
const LABELS = { same: "", removed: "removed: ", added: "added: " } as const;

export function Diff({ label, before, after }: Props) {
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  if (isSame(lines)) return <p class="dim small">No changes.</p>;
  return (
    <div class="diff" role="group" aria-label={label}>
      {sectionsOf(lines).map((section) =>
        section.isFolded ? (
          <FoldedLines key={section.from} lines={section.lines} />
        ) : (
          section.lines.map((line, index) => <Line key={section.from + index} line={line} />)
        ),
      )}
    </div>
  );
}

function FoldedLines({ lines }: { readonly lines: readonly DiffLine[] }) {
  const [isOpen, setOpen] = useState(false);
  if (isOpen) return lines.map((line, index) => <Line key={index} line={line} />);
  return (
    <button type="button" class="diff-fold" onClick={() => setOpen(true)}>
      {lines.length} unchanged lines
    </button>
  );
}

function Line({ line }: { readonly line: DiffLine }) {
  const [from, to] = line.part ?? [0, line.kind === "same" ? 0 : line.text.length];
  const Tag = line.kind === "removed" ? "del" : line.kind === "added" ? "ins" : "span";
  return (
    <div class={`diff-line ${line.kind}`}>
      <span class="diff-number" aria-hidden="true">
        {line.before ?? ""}
      </span>
      <span class="diff-number" aria-hidden="true">
        {line.after ?? ""}
      </span>
      <span class="diff-sign" aria-hidden="true">
        {SIGNS[line.kind]}
      </span>
      <Tag class="diff-text">
        <span class="visually-hidden">{LABELS[line.kind]}</span>
        <VisibleText text={line.text.slice(0, from)} mode="exact" />
        {to > from && (
          <span class={line.part ? "diff-part within" : "diff-part"}>
            <VisibleText text={line.text.slice(from, to)} mode="exact" />
          </span>
        )}
        <VisibleText text={line.text.slice(to)} mode="exact" />
      </Tag>
    </div>
  );
}

interface Section {
  readonly from: number;
  readonly lines: readonly DiffLine[];
  readonly isFolded: boolean;
}

function sectionsOf(lines: readonly DiffLine[]): readonly Section[] {
  const isNear = new Array<boolean>(lines.length).fill(false);
  lines.forEach((line, index) => {
    if (line.kind !== "same") isNear.fill(true, Math.max(0, index - CONTEXT_LINES), index + CONTEXT_LINES + 1);
  });
  const sections: Section[] = [];
  let from = 0;
  for (let index = 1; index <= lines.length; index += 1) {
    if (index < lines.length && isNear[index] === isNear[from]) continue;
    const sectionLines = lines.slice(from, index);
    // Folding one or two lines would save no space.
    sections.push({ from, lines: sectionLines, isFolded: !isNear[from] && sectionLines.length > 2 });
    from = index;
  }
  return sections;
}
