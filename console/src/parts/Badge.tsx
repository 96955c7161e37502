import type { ComponentChildren } from "preact";

export type Tone = "plain" | "good" | "info" | "warn" | "bad";

interface Props {
  readonly tone?: Tone;
  readonly title?: string;
  readonly children: ComponentChildren;
}

/** A state in one or two words. The colour only repeats what the words say. */
export function Badge({ tone = "plain", title, children }: Props) {
  return (
    <span class={`badge ${tone}`} {...(title ? { title } : {})}>
      {children}
    </span>
  );
}
