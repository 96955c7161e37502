/** What every page stands in: where one can go, who one is, and the theme. */

import type { ComponentChildren } from "preact";
import { link } from "../api/stream";
import { PAGES } from "../pages/table";
import { place, to } from "../router";
import { pending } from "../state/pending";
import { leave, rights, session } from "../state/session";
import { nextTheme, theme } from "../state/theme";
import { Shown } from "./Shown";

export function Layout({ children }: { readonly children: ComponentChildren }) {
  return (
    <div class="layout">
      <a class="skip-link" href="#content">
        Skip to content
      </a>
      <header class="side">
        <a class="brand" href={to("chat")} aria-label="Ferrule console">
          <img src="/console/mark.svg" alt="" width="22" height="22" />
          <span class="brand-name">Ferrule</span>
        </a>
        <nav aria-label="Pages">
          <ul class="nav">
            {PAGES.filter((page) => !page.right || rights.value.has(page.right)).map((page) => (
              <li key={page.path}>
                <a href={to(page.path)} {...(place.value.page === page.path ? { "aria-current": "page" as const } : {})}>
                  {page.title}
                  {page.path === "approvals" && <Waiting />}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <div class="side-foot">
          <Link />
          <Who />
          <ThemeButton />
        </div>
      </header>
      <main id="content" tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

function Waiting() {
  const count = pending.value?.length ?? 0;
  if (count === 0) return null;
  return (
    <span class="count">
      {count}
      <span class="visually-hidden"> waiting</span>
    </span>
  );
}

function Link() {
  const words = { idle: "", open: "", connecting: "Connecting…", waiting: "Connection lost; trying again…" }[link.value];
  return (
    <p class="link-state" role="status">
      {words}
    </p>
  );
}

function Who() {
  const now = session.value;
  if (now.state !== "in") return null;
  return (
    <p class="who">
      <span class="who-name" title={`tenant ${now.who.tenant}`}>
        <Shown text={now.who.name} />
      </span>
      {now.who.needs_key && (
        <button type="button" class="quiet" onClick={leave}>
          Sign out
        </button>
      )}
    </p>
  );
}

const THEMES = { system: ["◐", "System"], light: ["○", "Light"], dark: ["●", "Dark"] } as const;

function ThemeButton() {
  const [mark, word] = THEMES[theme.value];
  return (
    <button type="button" class="quiet theme" onClick={nextTheme} aria-label={`${word}: the theme. Change it`}>
      {mark} <span class="theme-word">{word}</span>
    </button>
  );
}
