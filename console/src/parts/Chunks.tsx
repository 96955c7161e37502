/**
 * A long list of which only what is near the window is drawn, in chunks. Whoever needs a row to remember something keeps
 * it outside of it: a row that is far away is forgotten.
 */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const SIZE = 16;
const NEAR = "1200px 0px";

interface Props<T> {
  readonly label: string;
  readonly rows: readonly T[];
  /** How high a row is, about, in pixels; as long as it was not drawn. */
  readonly estimate: number;
  /** Gives one row, with `aria` on its outermost element. */
  readonly draw: (row: T, aria: RowAria) => JSX.Element;
  readonly class?: string;
}

export interface RowAria {
  readonly role: "listitem";
  readonly "aria-posinset": number;
  readonly "aria-setsize": number;
}

export function Chunks<T>({ label, rows, estimate, draw, class: name = "" }: Props<T>) {
  const starts = Array.from({ length: Math.ceil(rows.length / SIZE) }, (_, at) => at * SIZE);
  return (
    <div role="list" aria-label={label} class={name}>
      {starts.map((start) => {
        const some = rows.slice(start, start + SIZE);
        return (
          <Chunk key={start} height={some.length * estimate} isFirst={start === 0}>
            {() =>
              some.map((row, at) =>
                draw(row, { role: "listitem", "aria-posinset": start + at + 1, "aria-setsize": rows.length }),
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
  const shown = useRef<HTMLDivElement>(null);
  const measured = useRef<number | null>(null);
  useEffect(() => {
    const element = shown.current;
    if (!element) return;
    return watched(element, (near) => {
      // It keeps its height when it is emptied, so that nothing moves.
      if (!near && element.childElementCount > 0) measured.current = element.offsetHeight;
      setNear(near);
    });
  }, []);
  return (
    <div ref={shown} class="chunk" style={isNear ? {} : { height: `${measured.current ?? height}px` }}>
      {isNear && children()}
    </div>
  );
}

const callbacks = new WeakMap<Element, (isNear: boolean) => void>();
let observer: IntersectionObserver | null = null;

/** Tells when an element comes near the window and when it goes; what comes back ends it. */
function watched(element: Element, told: (isNear: boolean) => void): () => void {
  observer ??= new IntersectionObserver(
    (entries) => {
      for (const entry of entries) callbacks.get(entry.target)?.(entry.isIntersecting);
    },
    { rootMargin: NEAR },
  );
  callbacks.set(element, told);
  observer.observe(element);
  return () => {
    observer?.unobserve(element);
    callbacks.delete(element);
  };
}
