/** Which page is shown: the one that the path names, once the gateway has said who is there. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Empty, Loading } from "./parts/Empty";
import { KeyEntry } from "./parts/KeyEntry";
import { Layout } from "./parts/Layout";
import { Problem } from "./parts/Problem";
import type { PageProps } from "./pages/props";
import { PAGES } from "./pages/table";
import { go, place, to } from "./router";
import { enter, rights, session } from "./state/session";

export function App() {
  const now = session.value;
  useEffect(() => void enter(), []);
  if (now.state === "unknown") return <Loading what="the console" />;
  if (now.state === "key") return <KeyEntry problem={now.problem} />;
  if (now.state === "failed") return <Problem problem={now.problem} again={() => void enter()} />;
  return (
    <Layout>
      <Current />
    </Layout>
  );
}

type Loaded = { readonly path: string; readonly page: ComponentType<PageProps> | null };

function Current() {
  const { page: path, id } = place.value;
  const [loaded, setLoaded] = useState<Loaded | null>(null);
  const page = PAGES.find((one) => one.path === path);
  const first = PAGES.find((one) => !one.right || rights.value.has(one.right));
  useEffect(() => {
    if (path === "" && first) go(to(first.path), true);
  }, [path, first]);
  useEffect(() => {
    let isWanted = true;
    document.title = page ? `${page.title} · Ferrule` : "Ferrule";
    page?.load().then(
      (module) => isWanted && setLoaded({ path, page: module.default }),
      () => isWanted && setLoaded({ path, page: null }),
    );
    return () => {
      isWanted = false;
    };
  }, [path]);
  if (path === "") return null;
  if (!page) {
    return (
      <Empty title="There is no such page">
        <a href={to("chat")}>Go to the chat</a>
      </Empty>
    );
  }
  if (loaded?.path !== path) return <Loading what={page.title} />;
  if (!loaded.page) {
    const words = { code: "page_not_loaded", message: "This page could not be loaded.", hint: "", status: 0 };
    return <Problem problem={words} again={() => location.reload()} />;
  }
  const Shown = loaded.page;
  return <Shown id={id} />;
}
