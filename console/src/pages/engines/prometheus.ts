/** The text that Prometheus reads, as samples. What is no sample is passed over: a page of figures breaks at nothing. */

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$/;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g;
const ESCAPED: Readonly<Record<string, string>> = { n: "\n", '"': '"', "\\": "\\" };

export function samplesIn(text: string): readonly Sample[] {
  const found: Sample[] = [];
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : SAMPLE.exec(line.trim());
    const value = match ? numberIn(match[3]!) : Number.NaN;
    if (match && !Number.isNaN(value)) found.push({ name: match[1]!, labels: labelsIn(match[2] ?? ""), value });
  }
  return found;
}

function labelsIn(text: string): Readonly<Record<string, string>> {
  const labels: Record<string, string> = Object.create(null);
  for (const [, name, value] of text.matchAll(LABEL)) {
    labels[name!] = value!.replaceAll(/\\(.)/g, (whole, one: string) => ESCAPED[one] ?? whole);
  }
  return labels;
}

function numberIn(text: string): number {
  if (text === "+Inf" || text === "Inf") return Infinity;
  return text === "-Inf" ? -Infinity : Number(text);
}
