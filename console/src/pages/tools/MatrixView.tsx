/** Which keywords of a tool's schema hold on which engine: a row for each keyword, a column for each engine. */

import { useMemo } from "preact/hooks";
import type { Enforcement } from "../../api/types";
import { Shown } from "../../parts/Shown";
import { matrixOf, type Column, type Hold } from "./matrix";

const HOLDS: Readonly<Record<Hold, { readonly mark: string; readonly word: string; readonly says: string }>> = {
  enforced: { mark: "●", word: "enforced", says: "while decoding: what does not fit cannot be written" },
  checked: { mark: "◐", word: "after", says: "decoding it is checked: what does not fit is never handed on as a call" },
  unchecked: { mark: "○", word: "nobody", says: "looks at it" },
};

export function MatrixView({ enforcement }: { readonly enforcement: readonly Enforcement[] }) {
  const matrix = useMemo(() => matrixOf(enforcement), [enforcement]);
  const unknown = matrix.columns.filter((column) => column.why);
  return (
    <section class="stack" aria-labelledby="matrix-title">
      <h2 id="matrix-title">What holds a call to it</h2>
      {matrix.columns.length === 0 && <p class="dim">There is no engine that this key may use.</p>}
      {matrix.columns.length > 0 && matrix.rows.length === 0 && <p class="dim">The schema demands nothing.</p>}
      {matrix.rows.length > 0 && matrix.columns.length > 0 && (
        <>
          <div class="card matrix-frame" role="region" aria-label="Keywords by engine" tabIndex={0}>
            <table class="matrix">
              <caption class="visually-hidden">Keywords of the schema, by engine</caption>
              <thead>
                <tr>
                  <th scope="col">Keyword</th>
                  {matrix.columns.map((column) => (
                    <Heading key={column.engine} column={column} />
                  ))}
                </tr>
              </thead>
              <tbody>
                {matrix.rows.map((row) => (
                  <tr key={row.keyword}>
                    <th scope="row">
                      <code>
                        <Shown text={row.keyword} manner="exact" />
                      </code>
                    </th>
                    {row.holds.map((hold, at) => (
                      <Cell key={at} hold={hold} />
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <ul class="matrix-legend small">
            {Object.entries(HOLDS).map(([hold, { mark, word, says }]) => (
              <li key={hold}>
                <span class={`hold ${hold}`}>
                  <span aria-hidden="true">{mark}</span> {word}
                </span>{" "}
                <span class="dim">{says}</span>
              </li>
            ))}
          </ul>
          {unknown.map((column) => (
            <p key={column.engine} class="small">
              <Shown text={column.engine} />: <Shown text={column.why} />. <span class="dim">Nothing is claimed of it yet.</span>
            </p>
          ))}
        </>
      )}
    </section>
  );
}

function Heading({ column }: { readonly column: Column }) {
  return (
    <th scope="col">
      <span class="matrix-engine">
        <Shown text={column.engine} />
      </span>
      <span class="matrix-more">
        {column.target ? <code>{column.target}</code> : column.why ? "not known" : "no rule"}
        {column.models.some((model) => model !== column.engine) && (
          <>
            , for <Shown text={column.models.join(", ")} />
          </>
        )}
      </span>
    </th>
  );
}

function Cell({ hold }: { readonly hold: Hold | null }) {
  if (!hold) return <td class="dim">–</td>;
  const { mark, word, says } = HOLDS[hold];
  return (
    <td>
      <span class={`hold ${hold}`} title={`${word} ${says}`}>
        <span aria-hidden="true">{mark}</span> {word}
      </span>
    </td>
  );
}
