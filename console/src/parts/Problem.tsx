import type { Problem as What } from "../api/result";
import { Shown } from "./Shown";

interface Props {
  readonly problem: What;
  readonly again?: () => void;
}

/** Something did not work: what, its code to search for, what to do. Read out when it appears. */
export function Problem({ problem, again }: Props) {
  return (
    <div class="problem" role="alert">
      <p>
        <Shown text={problem.message} /> <code class="problem-code">{problem.code}</code>
      </p>
      {problem.hint && (
        <p class="problem-hint">
          <Shown text={problem.hint} />
        </p>
      )}
      {again && (
        <button type="button" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}
