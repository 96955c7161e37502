/** How it stands with a source, in a word each; the title says what the word means. */

import { Badge, type Tone } from "../../parts/Badge";

type Said = { readonly word: string; readonly tone: Tone; readonly says: string };

const STATES: Readonly<Record<string, Said>> = {
  ready: { word: "ready", tone: "good", says: "Its tools can be reached." },
  connecting: { word: "connecting", tone: "info", says: "It is being reached." },
  failed: { word: "failed", tone: "bad", says: "It could not be reached, or went away; it is tried again." },
  closed: { word: "closed", tone: "plain", says: "It was closed." },
};

const TRUST: Readonly<Record<string, Said>> = {
  own: { word: "our own", tone: "plain", says: "The definitions are this program's." },
  trusted: { word: "trusted", tone: "info", says: "Somebody vouches for it: what it says of its tools is believed." },
  untrusted: { word: "untrusted", tone: "warn", says: "Nobody vouches for it: every one of its tools needs leave." },
};

export function SourceState({ state }: { readonly state: string }) {
  return <Word said={STATES[state]} word={state} />;
}

export function SourceTrust({ trust }: { readonly trust: string }) {
  return <Word said={TRUST[trust]} word={trust} />;
}

function Word({ said, word }: { readonly said: Said | undefined; readonly word: string }) {
  if (!said) return <Badge>{word}</Badge>;
  return (
    <Badge tone={said.tone} title={said.says}>
      {said.word}
    </Badge>
  );
}
