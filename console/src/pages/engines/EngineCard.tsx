/** One engine: its state, how it can be constrained, and what `ferrule doctor` found. */

import type { Engine } from "../../api/types";
import { Badge, type Tone } from "../../parts/Badge";
import { VisibleText } from "../../parts/VisibleText";
import { snapshots } from "./metricsPoller";
import { ProfileView } from "./ProfileView";

const STATES: Readonly<Record<string, { readonly tone: Tone; readonly description: string }>> = {
  ready: { tone: "good", description: "Receives requests." },
  resting: { tone: "bad", description: "Failed: other engines are used first until it is retried." },
};

const CHOICES: Readonly<Record<string, string>> = {
  auto: "reply or call a tool",
  none: "reply without a call",
  required: "call any tool",
  one: "call this tool",
  allowed: "call only these tools",
};

const TARGETS: Readonly<Record<string, string>> = {
  lark: "Lark",
  gbnf: "GBNF",
  structural_tag: "structural tag",
};

export function EngineCard({ engine }: { readonly engine: Engine }) {
  const state = STATES[engine.state];
  return (
    <article class="card engine" aria-label={`Engine ${engine.engine}`}>
      <header class="row">
        <h3>
          <VisibleText text={engine.engine} />
        </h3>
        <Badge>{engine.kind}</Badge>
        <Badge tone={state?.tone ?? "plain"} title={state?.description ?? ""}>
          {engine.state}
        </Badge>
      </header>
      {engine.why && (
        <p class={engine.state === "ready" ? "small" : "small bad-text"}>
          {engine.state === "ready" && <span class="dim">It will be retried. Last failure: </span>}
          <VisibleText text={engine.why} />
        </p>
      )}
      <dl class="facts">
        <dt>Constraint</dt>
        <dd>
          {engine.targets.length > 0 ? (
            <>
              grammar while decoding: {engine.targets.map((target) => TARGETS[target] ?? target).join(", ")}
            </>
          ) : (
            "none; every call is validated afterwards"
          )}
        </dd>
        <dt>tool_choice</dt>
        <dd>
          {Object.entries(CHOICES).map(([choice, description]) => (
            <ChoiceChip
              key={choice}
              choice={choice}
              description={description}
              isSupported={engine.honours.includes(choice)}
            />
          ))}
          {engine.honours
            .filter((choice) => !(choice in CHOICES))
            .map((choice) => (
              <ChoiceChip key={choice} choice={choice} description="" isSupported />
            ))}
        </dd>
        <dt>Skipping</dt>
        <dd>
          {engine.goes_on_cheaply
            ? "on: text that the grammar forces is appended, not generated"
            : "off: every token is generated"}
        </dd>
        <Counters engine={engine.engine} />
      </dl>
      <ProfileView engine={engine} />
    </article>
  );
}

interface ChoiceChipProps {
  readonly choice: string;
  readonly description: string;
  readonly isSupported: boolean;
}

function ChoiceChip({ choice, description, isSupported }: ChoiceChipProps) {
  return (
    <span class={isSupported ? "chip good" : "chip unsupported"} title={description}>
      <span aria-hidden="true">{isSupported ? "✓" : "✗"}</span>
      <span class="visually-hidden">{isSupported ? "supported: " : "not supported: "}</span> {choice}
    </span>
  );
}

/** Counters from /metrics, if the key may read it. */
function Counters({ engine }: { readonly engine: string }) {
  const last = snapshots.value.at(-1);
  if (!last) return null;
  const open = last.open.get(engine) ?? 0;
  const failures = last.failures.get(engine) ?? 0;
  return (
    <>
      <dt>In progress</dt>
      <dd class="tabular">{open === 1 ? "1 request" : `${open} requests`}</dd>
      <dt>Failures</dt>
      <dd class="tabular">{failures > 0 ? `${failures} since the gateway started` : "none since the gateway started"}</dd>
    </>
  );
}
