/** Two texts, line by line, with every hidden character drawn. What is the same in between is folded away. */

import { useMemo, useState } from "preact/hooks";
import { diffLines, isSame, type DiffLine } from "../text/diff";
import { Shown } from "./Shown";
import "./Diff.css";

interface Props {
  readonly label: string;
  readonly before: string;
  readonly after: string;
}

/** As many unchanged lines are kept around each change. */
const AROUND = 3;
const MARKS = { same: " ", gone: "−", new: "+" } as const;
const WORDS = { same: "", gone: "gone: ", new: "new: " } as const;

export function Diff({ label, before, after }: Props) {
  const lines = useMemo(() => diffLines(before, after), [before, after]);
  if (isSame(lines)) return <p class="dim small">Nothing has changed here.</p>;
  return (
    <div class="diff" role="group" aria-label={label}>
      {pieces(lines).map((piece) =>
        piece.isFolded ? (
          <Folded key={piece.from} lines={piece.lines} />
        ) : (
          piece.lines.map((line, at) => <Line key={piece.from + at} line={line} />)
        ),
      )}
    </div>
  );
}

function Folded({ lines }: { readonly lines: readonly DiffLine[] }) {
  const [isOpen, setOpen] = useState(false);
  if (isOpen) return lines.map((line, at) => <Line key={at} line={line} />);
  return (
    <button type="button" class="diff-fold" onClick={() => setOpen(true)}>
      {lines.length} lines are the same
    </button>
  );
}

function Line({ line }: { readonly line: DiffLine }) {
  const [from, to] = line.part ?? [0, line.kind === "same" ? 0 : line.text.length];
  const Tag = line.kind === "gone" ? "del" : line.kind === "new" ? "ins" : "span";
  return (
    <div class={`diff-line ${line.kind}`}>
      <span class="diff-number" aria-hidden="true">
        {line.before ?? ""}
      </span>
      <span class="diff-number" aria-hidden="true">
        {line.after ?? ""}
      </span>
      <span class="diff-mark" aria-hidden="true">
        {MARKS[line.kind]}
      </span>
      <Tag class="diff-text">
        <span class="visually-hidden">{WORDS[line.kind]}</span>
        <Shown text={line.text.slice(0, from)} manner="exact" />
        {to > from && (
          <span class={line.part ? "diff-part within" : "diff-part"}>
            <Shown text={line.text.slice(from, to)} manner="exact" />
          </span>
        )}
        <Shown text={line.text.slice(to)} manner="exact" />
      </Tag>
    </div>
  );
}

interface Piece {
  readonly from: number;
  readonly lines: readonly DiffLine[];
  readonly isFolded: boolean;
}

function pieces(lines: readonly DiffLine[]): readonly Piece[] {
  const isNear = new Array<boolean>(lines.length).fill(false);
  lines.forEach((line, at) => {
    if (line.kind !== "same") isNear.fill(true, Math.max(0, at - AROUND), at + AROUND + 1);
  });
  const found: Piece[] = [];
  let from = 0;
  for (let at = 1; at <= lines.length; at += 1) {
    if (at < lines.length && isNear[at] === isNear[from]) continue;
    const run = lines.slice(from, at);
    // To fold away a line or two would hide more than it saves.
    found.push({ from, lines: run, isFolded: !isNear[from] && run.length > 2 });
    from = at;
  }
  return found;
}
