/** The Engines page: the engines behind each model, their constraints and doctor profiles, and live metrics. */

import * as gateway from "../../api/gateway";
import type { Engine } from "../../api/types";
import { useFetch } from "../../parts/useFetch";
import { EmptyState, Loading } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { VisibleText } from "../../parts/VisibleText";
import { EngineCard } from "./EngineCard";
import { LiveMetrics } from "./LiveMetrics";
import "./engines.css";

/** An engine's health can change at any time. */
const POLL_SECONDS = 5;

export default function Engines() {
  const engines = useFetch("engines", gateway.engines, POLL_SECONDS);
  const models = groupByModel(engines.value?.data ?? []);
  return (
    <div class="page">
      <header class="page-head">
        <h1>Engines</h1>
      </header>
      {engines.problem && <Problem problem={engines.problem} onRetry={engines.retry} />}
      {!engines.value && !engines.problem && <Loading what="engines" />}
      {engines.value && models.length === 0 && (
        <EmptyState title="This key cannot use any engine">
          Use a key whose <code>models</code> name one, or add an engine with <code>ferrule serve --engine llama:model.gguf</code>.
        </EmptyState>
      )}
      {models.map(([model, engines]) => (
        <section key={model} class="stack" aria-label={`Model ${model}`}>
          <h2 class="model-name">
            <span class="dim">Model</span> <VisibleText text={model} />
          </h2>
          <div class="engine-grid">
            {engines.map((engine) => (
              <EngineCard key={engine.engine} engine={engine} />
            ))}
          </div>
        </section>
      ))}
      <LiveMetrics />
    </div>
  );
}

/** In the order in which they are tried. */
function groupByModel(engines: readonly Engine[]): readonly (readonly [string, readonly Engine[]])[] {
  const groups = new Map<string, Engine[]>();
  for (const engine of engines) groups.set(engine.model, [...(groups.get(engine.model) ?? []), engine]);
  return [...groups];
}
