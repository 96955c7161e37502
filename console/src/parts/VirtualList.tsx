/**
 * A virtual list: renders only the rows near the viewport, in chunks. Rows lose their component state when they leave the
 * viewport, so state that must survive belongs to the parent.
 */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const CHUNK_SIZE = 16;
const NEAR_MARGIN = "1200px 0px";

interface Props<T> {
  readonly label: string;
  readonly rows: readonly T[];
  /** The estimated height of a row in pixels, used until it is rendered. */
  readonly estimatedHeight: number;
  /** Renders one row. It must put `aria` on its outermost element. */
  readonly renderRow: (row: T, aria: RowAria) => JSX.Element;
  readonly class?: string;
}

export interface RowAria {
  readonly role: "listitem";
  readonly "aria-posinset": number;
  readonly "aria-setsize": number;
}

export function VirtualList<T>({ label, rows, estimatedHeight, renderRow, class: name = "" }: Props<T>) {
  const starts = Array.from({ length: Math.ceil(rows.length / CHUNK_SIZE) }, (_, index) => index * CHUNK_SIZE);
  return (
    <div role="list" aria-label={label} class={name}>
      {starts.map((start) => {
        const chunkRows = rows.slice(start, start + CHUNK_SIZE);
        return (
          <Chunk key={start} height={chunkRows.length * estimatedHeight} isFirst={start === 0}>
            {() =>
              chunkRows.map((row, index) =>
                renderRow(row, { role: "listitem", "aria-posinset": start + index + 1, "aria-setsize": rows.length }),
              )
            }
          </Chunk>
        );
      })}
    </div>
  );
}

interface ChunkProps {
  readonly height: number;
  readonly isFirst: boolean;
  readonly children: () => ComponentChildren;
}

function Chunk({ height, isFirst, children }: ChunkProps) {
  const [isNear, setNear] = useState(isFirst);
  const container = useRef<HTMLDivElement>(null);
  const lastHeight = useRef<number | null>(null);
  useEffect(() => {
    const element = container.current;
    if (!element) return;
    return observeNearness(element, (near) => {
      // An emptied chunk keeps its height, so that the page does not jump.
      if (!near && element.childElementCount > 0) lastHeight.current = element.offsetHeight;
      setNear(near);
    });
  }, []);
  return (
    <div ref={container} class="chunk" style={isNear ? {} : { height: `${lastHeight.current ?? height}px` }}>
      {isNear && children()}
    </div>
  );
}

const callbacks = new WeakMap<Element, (isNear: boolean) => void>();
let observer: IntersectionObserver | null = null;

/** Reports whether an element is near the viewport. Returns a function that stops it. */
function observeNearness(element: Element, onChange: (isNear: boolean) => void): () => void {
  observer ??= new IntersectionObserver(
    (entries) => {
      for (const entry of entries) callbacks.get(entry.target)?.(entry.isIntersecting);
    },
    { rootMargin: NEAR_MARGIN },
  );
  callbacks.set(element, onChange);
  observer.observe(element);
  return () => {
    observer?.unobserve(element);
    callbacks.delete(element);
  };
}
