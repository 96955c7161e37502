/** The frame of every page: navigation, the current principal and the theme. */

import type { ComponentChildren } from "preact";
import { connection } from "../api/stream";
import { PAGES } from "../pages/routes";
import { route, pathTo } from "../router";
import { pending } from "../state/pending";
import { signOut, rights, session } from "../state/session";
import { nextTheme, theme } from "../state/theme";
import { VisibleText } from "./VisibleText";

export function Layout({ children }: { readonly children: ComponentChildren }) {
  return (
    <div class="layout">
      <a class="skip-link" href="#content">
        Skip to content
      </a>
      <header class="sidebar">
        <a class="brand" href={pathTo("chat")} aria-label="Ferrule console">
          <img src="/console/mark.svg" alt="" width="22" height="22" />
          <span class="brand-name">Ferrule</span>
        </a>
        <nav aria-label="Pages">
          <ul class="nav">
            {PAGES.filter((page) => !page.right || rights.value.has(page.right)).map((page) => (
              <li key={page.path}>
                <a href={pathTo(page.path)} {...(route.value.page === page.path ? { "aria-current": "page" as const } : {})}>
                  {page.title}
                  {page.path === "approvals" && <PendingCount />}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <div class="sidebar-footer">
          <ConnectionStatus />
          <CurrentPrincipal />
          <ThemeButton />
        </div>
      </header>
      <main id="content" tabIndex={-1}>
        {children}
      </main>
    </div>
  );
}

function PendingCount() {
  const count = pending.value?.length ?? 0;
  if (count === 0) return null;
  return (
    <span class="count">
      {count}
      <span class="visually-hidden"> pending</span>
    </span>
  );
}

function ConnectionStatus() {
  const messages = { idle: "", open: "", connecting: "Connecting…", waiting: "Connection lost. Reconnecting…" };
  return (
    <p class="connection-status" role="status">
      {messages[connection.value]}
    </p>
  );
}

function CurrentPrincipal() {
  const current = session.value;
  if (current.state !== "signed-in") return null;
  return (
    <p class="principal">
      <span class="principal-name" title={`tenant ${current.principal.tenant}`}>
        <VisibleText text={current.principal.name} />
      </span>
      {current.principal.needs_key && (
        <button type="button" class="quiet" onClick={signOut}>
          Sign out
        </button>
      )}
    </p>
  );
}

const THEMES = { system: ["◐", "System"], light: ["○", "Light"], dark: ["●", "Dark"] } as const;

function ThemeButton() {
  const [icon, label] = THEMES[theme.value];
  return (
    <button type="button" class="quiet theme" onClick={nextTheme} aria-label={`Theme: ${label}. Change`}>
      {icon} <span class="theme-label">{label}</span>
    </button>
  );
}
