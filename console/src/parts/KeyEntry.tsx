/** Asks for a key where the gateway needs one. It is kept in memory only. */

import { useState } from "preact/hooks";
import type { Problem as What } from "../api/result";
import { enterWith } from "../state/session";
import { useFocus } from "./focus";
import { Problem } from "./Problem";

export function KeyEntry({ problem }: { readonly problem: What | null }) {
  const [secret, setSecret] = useState("");
  const box = useFocus<HTMLInputElement>();
  const [isTrying, setTrying] = useState(false);
  const enter = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!secret.trim()) return;
    setTrying(true);
    await enterWith(secret.trim());
    setTrying(false);
  };
  return (
    <main class="door" id="content">
      <form class="door-form card" onSubmit={enter}>
        <h1>
          <img src="/console/mark.svg" alt="" width="28" height="28" /> Ferrule
        </h1>
        <p>This gateway asks for a key.</p>
        <label for="key">Key</label>
        <input
          ref={box}
          id="key"
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={secret}
          onInput={(event) => setSecret(event.currentTarget.value)}
        />
        <button type="submit" class="primary" disabled={isTrying}>
          {isTrying ? "Trying…" : "Enter"}
        </button>
        {problem && <Problem problem={problem} />}
        <p class="dim small">
          It stays in this page's memory and is forgotten when the page is closed. <code>ferrule keys new NAME</code> makes
          one.
        </p>
      </form>
    </main>
  );
}
