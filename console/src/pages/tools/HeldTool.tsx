/** A tool that is there and not offered: why, and what its definition was and has become. */

import { useState } from "preact/hooks";
import type { DefinitionVersion, Json, Quarantined } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { Diff } from "../../parts/Diff";
import { JsonView } from "../../parts/Json";
import { Shown } from "../../parts/Shown";
import { spelled } from "../../text/hidden";

export function HeldTool({ held }: { readonly held: Quarantined }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <section class="held" aria-label={`Held back: ${spelled(held.tool)}`}>
      <div class="row">
        <span class="tool-name">
          <Shown text={held.tool} manner="exact" />
        </span>
        <Badge tone="bad">held back</Badge>
        <button type="button" class="small held-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Close" : held.before ? "What changed" : "What it says"}
        </button>
      </div>
      <p class="small">
        <Shown text={held.why} />
      </p>
      {isOpen && (held.before ? <Changed before={held.before} now={held.now} /> : <Alone now={held.now} />)}
    </section>
  );
}

function Changed({ before, now }: { readonly before: DefinitionVersion; readonly now: DefinitionVersion }) {
  return (
    <div class="stack held-body">
      <dl class="facts">
        <dt>Agreed to</dt>
        <dd>
          <code class="hash">{before.fingerprint || "unknown"}</code>
        </dd>
        <dt>Now</dt>
        <dd>
          <code class="hash">{now.fingerprint || "unknown"}</code>
        </dd>
      </dl>
      <h3>Description</h3>
      <Diff label="Description, before and now" before={before.description} after={now.description} />
      <h3>Schema</h3>
      <Diff label="Schema, before and now" before={written(before.parameters)} after={written(now.parameters)} />
      <h3>Besides</h3>
      <Diff label="What else was agreed to, before and now" before={written(before.more)} after={written(now.more)} />
    </div>
  );
}

function Alone({ now }: { readonly now: DefinitionVersion }) {
  return (
    <div class="stack held-body">
      <p class="dim small">What was agreed to before is not known; this is what it says now.</p>
      <p>
        <Shown text={now.description} manner="prose" />
      </p>
      <JsonView value={now.parameters} label="Schema" />
    </div>
  );
}

/** The order of keys says nothing, so they are put in one: else it would look like a change. */
function written(value: Json | undefined): string {
  return JSON.stringify(ordered(value ?? {}), null, 2);
}

function ordered(value: Json): Json {
  if (Array.isArray(value)) return value.map(ordered);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value as { readonly [key: string]: Json });
  return Object.fromEntries(entries.sort(([one], [other]) => (one < other ? -1 : 1)).map(([key, one]) => [key, ordered(one)]));
}
