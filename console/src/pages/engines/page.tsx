/** Engines: what answers behind each model, how it can be held, what the doctor found there, and what it does right now. */

import * as gateway from "../../api/gateway";
import type { Engine } from "../../api/types";
import { useAnswer } from "../../parts/asked";
import { Empty, Loading } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { Shown } from "../../parts/Shown";
import { EngineCard } from "./EngineCard";
import { Live } from "./Live";
import "./engines.css";

/** Health changes by itself. */
const EVERY = 5;

export default function Engines() {
  const engines = useAnswer("engines", gateway.engines, EVERY);
  const models = byModel(engines.value?.data ?? []);
  return (
    <div class="page">
      <header class="page-head">
        <h1>Engines</h1>
      </header>
      {engines.problem && <Problem problem={engines.problem} again={engines.again} />}
      {!engines.value && !engines.problem && <Loading what="engines" />}
      {engines.value && models.length === 0 && (
        <Empty title="There is no engine that this key may use">
          <code>ferrule serve --engine llama:model.gguf</code> serves one.
        </Empty>
      )}
      {models.map(([model, own]) => (
        <section key={model} class="stack" aria-label={`Model ${model}`}>
          <h2 class="model-name">
            <span class="dim">Model</span> <Shown text={model} />
          </h2>
          <div class="engine-grid">
            {own.map((engine) => (
              <EngineCard key={engine.engine} engine={engine} />
            ))}
          </div>
        </section>
      ))}
      <Live />
    </div>
  );
}

/** In the order in which they are asked. */
function byModel(engines: readonly Engine[]): readonly (readonly [string, readonly Engine[]])[] {
  const found = new Map<string, Engine[]>();
  for (const engine of engines) found.set(engine.model, [...(found.get(engine.model) ?? []), engine]);
  return [...found];
}
