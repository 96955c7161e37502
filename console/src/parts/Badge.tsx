import type { ComponentChildren } from "preact";

export type Tone = "plain" | "good" | "info" | "warn" | "bad";

interface Props {
  readonly tone?: Tone;
  readonly title?: string;
  readonly children: ComponentChildren;
}

/** One or two words about a thing's state. The words say it; the colour only repeats it. */
export function Badge({ tone = "plain", title, children }: Props) {
  return (
    <span class={`badge ${tone}`} {...(title ? { title } : {})}>
      {children}
    </span>
  );
}
