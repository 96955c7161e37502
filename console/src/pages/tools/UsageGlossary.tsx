/** Explains the counts of the usage view. The three plotted ones are always visible. */

const PLOTTED: readonly (readonly [string, string])[] = [
  ["picked", "calls of the tool that were accepted"],
  ["retried", "picked calls after an error: the previous result of the same tool in the conversation was an error"],
  [
    "missed",
    "calls of an unknown name, counted for the tool with the most similar name; and replies without a call although this tool was required",
  ],
];

const OTHERS: readonly (readonly [string, string])[] = [
  ["offered", "model replies in which the tool was available"],
  ["wrong", "calls of the tool with invalid arguments: repaired (then also counted as picked) or refused"],
  ["repeated", "picked calls with the same arguments as an earlier call of the tool in the conversation"],
  ["failed", "picked calls that ran and ended with an error or an unknown outcome"],
  ["denied", "picked calls that a person denied"],
  ["cut off", "calls that were incomplete when the token limit was reached"],
  ["wrong share", "wrong calls as a share of picked and refused ones"],
];

export function UsageGlossary() {
  return (
    <div class="glossary small">
      <Definitions terms={PLOTTED} />
      <details>
        <summary>Other counts</summary>
        <Definitions terms={OTHERS} />
        <p class="dim">
          The counts do not show whether another tool would have been the better choice, or whether a call was missing where
          none was made.
        </p>
      </details>
    </div>
  );
}

function Definitions({ terms }: { readonly terms: readonly (readonly [string, string])[] }) {
  return (
    <dl class="facts">
      {terms.map(([term, meaning]) => (
        <>
          <dt>{term}</dt>
          <dd>{meaning}</dd>
        </>
      ))}
    </dl>
  );
}
