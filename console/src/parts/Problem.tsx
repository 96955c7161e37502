import type { Problem as ProblemValue } from "../api/result";
import { VisibleText } from "./VisibleText";

interface Props {
  readonly problem: ProblemValue;
  readonly onRetry?: () => void;
}

/** An error: its message, its code and a hint. Screen readers announce it. */
export function Problem({ problem, onRetry }: Props) {
  return (
    <div class="problem" role="alert">
      <p>
        <VisibleText text={problem.message} /> <code class="problem-code">{problem.code}</code>
      </p>
      {problem.hint && (
        <p class="problem-hint">
          <VisibleText text={problem.hint} />
        </p>
      )}
      {onRetry && (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}
