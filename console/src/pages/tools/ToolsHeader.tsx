import { route, pathTo } from "../../router";

const VIEWS = [
  ["", "Sources and tools"],
  ["usage", "Usage"],
] as const;

/** The page's title and its two views. */
export function ToolsHeader() {
  const current = route.value.query.get("view") ?? "";
  return (
    <header class="page-head">
      <h1>Tools</h1>
      <nav class="views" aria-label="Views of the tools">
        {VIEWS.map(([view, title]) => (
          <a
            key={view}
            href={pathTo("tools", "", view ? { view } : {})}
            {...(current === view ? { "aria-current": "page" as const } : {})}
          >
            {title}
          </a>
        ))}
      </nav>
    </header>
  );
}
