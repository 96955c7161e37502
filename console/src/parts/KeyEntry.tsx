/** Asks for an API key if the gateway requires one. The key is kept in memory only. */

import { useState } from "preact/hooks";
import type { Problem as ProblemValue } from "../api/result";
import { signIn } from "../state/session";
import { useFocus } from "./useFocus";
import { Problem } from "./Problem";

export function KeyEntry({ problem }: { readonly problem: ProblemValue | null }) {
  const [secret, setSecret] = useState("");
  const input = useFocus<HTMLInputElement>();
  const [isTrying, setTrying] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!secret.trim()) return;
    setTrying(true);
    await signIn(secret.trim());
    setTrying(false);
  };
  return (
    <main class="sign-in" id="content">
      <form class="sign-in-form card" onSubmit={submit}>
        <h1>
          <img src="/console/mark.svg" alt="" width="28" height="28" /> Ferrule
        </h1>
        <p>This gateway requires an API key.</p>
        <label for="key">Key</label>
        <input
          ref={input}
          id="key"
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={secret}
          onInput={(event) => setSecret(event.currentTarget.value)}
        />
        <button type="submit" class="primary" disabled={isTrying}>
          {isTrying ? "Signing in…" : "Sign in"}
        </button>
        {problem && <Problem problem={problem} />}
        <p class="dim small">
          The key is kept in memory only; closing the page discards it. Create one with{" "}
          <code>ferrule keys new NAME</code>.
        </p>
      </form>
    </main>
  );
}
