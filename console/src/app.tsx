/** Shows the page that the path names, as soon as the gateway has identified the principal. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { EmptyState, Loading } from "./parts/EmptyState";
import { KeyEntry } from "./parts/KeyEntry";
import { Layout } from "./parts/Layout";
import { Problem } from "./parts/Problem";
import type { PageProps } from "./pages/props";
import { PAGES } from "./pages/routes";
import { navigate, route, pathTo } from "./router";
import { loadSession, rights, session } from "./state/session";

export function App() {
  const current = session.value;
  useEffect(() => void loadSession(), []);
  if (current.state === "unknown") return <Loading what="the console" />;
  if (current.state === "signed-out") return <KeyEntry problem={current.problem} />;
  if (current.state === "failed") return <Problem problem={current.problem} onRetry={() => void loadSession()} />;
  return (
    <Layout>
      <CurrentPage />
    </Layout>
  );
}

type Loaded = { readonly path: string; readonly page: ComponentType<PageProps> | null };

function CurrentPage() {
  const { page: path, id } = route.value;
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const page = PAGES.find((page) => page.path === path);
  const first = PAGES.find((page) => !page.right || rights.value.has(page.right));
  useEffect(() => {
    if (path === "" && first) navigate(pathTo(first.path), true);
  }, [path, first]);
  useEffect(() => {
    let isMounted = true;
    document.title = page ? `${page.title} · Ferrule` : "Ferrule";
    page?.load().then(
      (module) => isMounted && setLoaded({ path, page: module.default }),
      () => isMounted && setLoaded({ path, page: null }),
    );
    return () => {
      isMounted = false;
    };
  }, [path]);
  if (path === "") return null;
  if (!page) {
    return (
      <EmptyState title="Page not found">
        <a href={pathTo("chat")}>Go to the chat</a>
      </EmptyState>
    );
  }
  if (loaded?.path !== path) return <Loading what={page.title} />;
  if (!loaded.page) {
    const problem = { code: "page_not_loaded", message: "This page could not be loaded.", hint: "", status: 0 };
    return <Problem problem={problem} onRetry={() => location.reload()} />;
  }
  const Page = loaded.page;
  return <Page id={id} />;
}
