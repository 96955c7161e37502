/** What is counted by each word. The three that are drawn are said at once. */

const DRAWN: readonly (readonly [string, string])[] = [
  ["picked", "calls that name the tool and were handed on"],
  ["retried", "picked calls after an error: the last result of the same tool in the conversation was one"],
  [
    "missed",
    "calls of a name that was not on offer, counted for the tool whose name is nearest to it; and replies without any call where this very tool was demanded",
  ],
];

const LISTED: readonly (readonly [string, string])[] = [
  ["offered", "replies of a model that could have called the tool"],
  ["wrong", "calls that name it whose arguments did not fit: repaired, and then picked too, or refused"],
  ["repeated", "picked calls with the arguments of an earlier call of the same tool in the conversation"],
  ["failed", "picked calls that were begun and whose result was an error, or of which nobody can say what became"],
  ["denied", "picked calls that a person said no to"],
  ["cut off", "calls that the end of the answer's budget broke off; whether they would have fitted nobody can say"],
  ["wrong share", "wrong, of those picked and refused"],
];

export function Meanings() {
  return (
    <div class="meanings small">
      <Words words={DRAWN} />
      <details>
        <summary>What the other words mean</summary>
        <Words words={LISTED} />
        <p class="dim">
          What no figure knows is whether another tool would have been the right one, or whether a call was needed where none
          was made.
        </p>
      </details>
    </div>
  );
}

function Words({ words }: { readonly words: readonly (readonly [string, string])[] }) {
  return (
    <dl class="facts">
      {words.map(([word, meaning]) => (
        <>
          <dt>{word}</dt>
          <dd>{meaning}</dd>
        </>
      ))}
    </dl>
  );
}
