/** Parses the Prometheus text format into samples. Lines that are not samples are ignored. */

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$/;
const LABEL = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"/g;
const ESCAPED: Readonly<Record<string, string>> = { n: "\n", '"': '"', "\\": "\\" };

export function parseSamples(text: string): readonly Sample[] {
  const samples: Sample[] = [];
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : SAMPLE.exec(line.trim());
    const value = match ? parseNumber(match[3]!) : Number.NaN;
    if (match && !Number.isNaN(value)) samples.push({ name: match[1]!, labels: parseLabels(match[2] ?? ""), value });
  }
  return samples;
}

function parseLabels(text: string): Readonly<Record<string, string>> {
  const labels: Record<string, string> = Object.create(null);
  for (const [, name, value] of text.matchAll(LABEL)) {
    labels[name!] = value!.replaceAll(/\\(.)/g, (whole, one: string) => ESCAPED[one] ?? whole);
  }
  return labels;
}

function parseNumber(text: string): number {
  if (text === "+Inf" || text === "Inf") return Infinity;
  return text === "-Inf" ? -Infinity : Number(text);
}
