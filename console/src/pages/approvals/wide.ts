import { useEffect, useState } from "preact/hooks";

/** As in the style: from here on the queue and one of it stand side by side. */
const WIDE = "(min-width: 60rem)";

export function useIsWide(): boolean {
  const [isWide, setWide] = useState(() => matchMedia(WIDE).matches);
  useEffect(() => {
    const query = matchMedia(WIDE);
    const told = (): void => setWide(query.matches);
    query.addEventListener("change", told);
    return () => query.removeEventListener("change", told);
  }, []);
  return isWide;
}
