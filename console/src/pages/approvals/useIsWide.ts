import { useEffect, useState } from "preact/hooks";

/** As in approvals.css: from this width on, the queue and the approval are side by side. */
const WIDE = "(min-width: 60rem)";

export function useIsWide(): boolean {
  const [isWide, setWide] = useState(() => matchMedia(WIDE).matches);
  useEffect(() => {
    const query = matchMedia(WIDE);
    const update = (): void => setWide(query.matches);
    query.addEventListener("change", update);
    return () => query.removeEventListener("change", update);
  }, []);
  return isWide;
}
