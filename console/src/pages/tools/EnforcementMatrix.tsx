/** How each schema keyword is enforced by each engine: one row per keyword, one column per engine. */

import { useMemo } from "preact/hooks";
import type { Enforcement } from "../../api/types";
import { VisibleText } from "../../parts/VisibleText";
import { matrixOf, type Column, type EnforcementLevel } from "./matrix";

interface LevelStyle {
  readonly icon: string;
  readonly label: string;
  readonly description: string;
}

const LEVELS: Readonly<Record<EnforcementLevel, LevelStyle>> = {
  enforced: { icon: "●", label: "enforced", description: "while decoding: the model cannot write an invalid value" },
  checked: { icon: "◐", label: "validated", description: "after decoding: an invalid call is never passed on" },
  unchecked: { icon: "○", label: "not checked", description: "neither while decoding nor afterwards" },
};

export function EnforcementMatrix({ enforcement }: { readonly enforcement: readonly Enforcement[] }) {
  const matrix = useMemo(() => matrixOf(enforcement), [enforcement]);
  const unknown = matrix.columns.filter((column) => column.why);
  return (
    <section class="stack" aria-labelledby="matrix-title">
      <h2 id="matrix-title">Enforcement</h2>
      {matrix.columns.length === 0 && <p class="dim">This key cannot use any engine.</p>}
      {matrix.columns.length > 0 && matrix.rows.length === 0 && <p class="dim">The schema has no keywords to enforce.</p>}
      {matrix.rows.length > 0 && matrix.columns.length > 0 && (
        <>
          <div class="card matrix-frame" role="region" aria-label="Keywords by engine" tabIndex={0}>
            <table class="matrix">
              <caption class="visually-hidden">Keywords of the schema, by engine</caption>
              <thead>
                <tr>
                  <th scope="col">Keyword</th>
                  {matrix.columns.map((column) => (
                    <EngineHeading key={column.engine} column={column} />
                  ))}
                </tr>
              </thead>
              <tbody>
                {matrix.rows.map((row) => (
                  <tr key={row.keyword}>
                    <th scope="row">
                      <code>
                        <VisibleText text={row.keyword} mode="exact" />
                      </code>
                    </th>
                    {row.levels.map((level, index) => (
                      <LevelCell key={index} level={level} />
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <ul class="matrix-legend small">
            {Object.entries(LEVELS).map(([level, { icon, label, description }]) => (
              <li key={level}>
                <span class={`level ${level}`}>
                  <span aria-hidden="true">{icon}</span> {label}
                </span>{" "}
                <span class="dim">{description}</span>
              </li>
            ))}
          </ul>
          {unknown.map((column) => (
            <p key={column.engine} class="small">
              <VisibleText text={column.engine} />: <VisibleText text={column.why} />.{" "}
              <span class="dim">Its enforcement is unknown.</span>
            </p>
          ))}
        </>
      )}
    </section>
  );
}

function EngineHeading({ column }: { readonly column: Column }) {
  return (
    <th scope="col">
      <span class="matrix-engine">
        <VisibleText text={column.engine} />
      </span>
      <span class="matrix-more">
        {column.target ? <code>{column.target}</code> : column.why ? "unknown" : "no grammar"}
        {column.models.some((model) => model !== column.engine) && (
          <>
            , for <VisibleText text={column.models.join(", ")} />
          </>
        )}
      </span>
    </th>
  );
}

function LevelCell({ level }: { readonly level: EnforcementLevel | null }) {
  if (!level) return <td class="dim">–</td>;
  const { icon, label, description } = LEVELS[level];
  return (
    <td>
      <span class={`level ${level}`} title={`${label} ${description}`}>
        <span aria-hidden="true">{icon}</span> {label}
      </span>
    </td>
  );
}
