import { formatOffset } from "./entries";

interface Props {
  readonly at: number;
  readonly startedAt: number;
}

/** The time since the start. The exact time is in the title. */
export function Offset({ at, startedAt }: Props) {
  const date = new Date(at * 1000);
  const isValid = !Number.isNaN(date.getTime());
  return (
    <time
      class="entry-time tabular"
      dateTime={isValid ? date.toISOString() : ""}
      title={isValid ? date.toLocaleString() : ""}
    >
      {formatOffset(at - startedAt)}
    </time>
  );
}
