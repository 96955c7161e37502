import { place, to } from "../../router";

const VIEWS = [
  ["", "Sources and tools"],
  ["picked", "What models pick"],
] as const;

/** The page's title, and its two views. */
export function Head() {
  const now = place.value.query.get("view") ?? "";
  return (
    <header class="page-head">
      <h1>Tools</h1>
      <nav class="views" aria-label="Views of the tools">
        {VIEWS.map(([view, title]) => (
          <a key={view} href={to("tools", "", view ? { view } : {})} {...(now === view ? { "aria-current": "page" as const } : {})}>
            {title}
          </a>
        ))}
      </nav>
    </header>
  );
}
