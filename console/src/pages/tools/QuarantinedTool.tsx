/** A quarantined tool, which is not offered: why, and how its definition has changed. */

import { useState } from "preact/hooks";
import type { DefinitionVersion, Json, QuarantineEntry } from "../../api/types";
import { Badge } from "../../parts/Badge";
import { Diff } from "../../parts/Diff";
import { JsonView } from "../../parts/Json";
import { VisibleText } from "../../parts/VisibleText";
import { spellOut } from "../../text/hiddenCharacters";

export function QuarantinedTool({ entry }: { readonly entry: QuarantineEntry }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <section class="quarantined" aria-label={`Quarantined: ${spellOut(entry.tool)}`}>
      <div class="row">
        <span class="tool-name">
          <VisibleText text={entry.tool} mode="exact" />
        </span>
        <Badge tone="bad">quarantined</Badge>
        <button type="button" class="small quarantined-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Close" : entry.before ? "Show changes" : "Show definition"}
        </button>
      </div>
      <p class="small">
        <VisibleText text={entry.why} />
      </p>
      {isOpen && entry.before && <DefinitionDiff before={entry.before} now={entry.now} />}
      {isOpen && !entry.before && <CurrentDefinition now={entry.now} />}
    </section>
  );
}

function DefinitionDiff({ before, now }: { readonly before: DefinitionVersion; readonly now: DefinitionVersion }) {
  return (
    <div class="stack quarantined-body">
      <dl class="facts">
        <dt>Pinned</dt>
        <dd>
          <code class="hash">{before.fingerprint || "unknown"}</code>
        </dd>
        <dt>Current</dt>
        <dd>
          <code class="hash">{now.fingerprint || "unknown"}</code>
        </dd>
      </dl>
      <h3>Description</h3>
      <Diff label="Description, before and now" before={before.description} after={now.description} />
      <h3>Schema</h3>
      <Diff label="Schema, before and now" before={format(before.parameters)} after={format(now.parameters)} />
      <h3>Other fields</h3>
      <Diff label="Other fields, before and now" before={format(before.more)} after={format(now.more)} />
    </div>
  );
}

function CurrentDefinition({ now }: { readonly now: DefinitionVersion }) {
  return (
    <div class="stack quarantined-body">
      <p class="dim small">The pinned definition is unknown. This is the current one.</p>
      <p>
        <VisibleText text={now.description} mode="prose" />
      </p>
      <JsonView value={now.parameters} label="Schema" />
    </div>
  );
}

/** Formats JSON with sorted keys, so that a different key order does not look like a change. */
function format(value: Json | undefined): string {
  return JSON.stringify(sortKeys(value ?? {}), null, 2);
}

function sortKeys(value: Json): Json {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value as { readonly [key: string]: Json });
  const sorted = entries.sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(sorted.map(([key, member]) => [key, sortKeys(member)]));
}
