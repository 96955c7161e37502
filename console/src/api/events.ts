/** Reads server-sent events with `fetch`, because `EventSource` cannot send the API key in a header. */

import { key } from "./key";

export interface ServerEvent {
  readonly event: string;
  readonly data: string;
}

/** Splits a stream of text into events. Feed it chunks of any size. */
export class EventParser {
  private rest = "";

  feed(text: string): ServerEvent[] {
    const blocks = (this.rest + text).split("\n\n");
    this.rest = blocks.pop() ?? "";
    return blocks.map(parseBlock).filter((event) => event !== null);
  }
}

function parseBlock(block: string): ServerEvent | null {
  let event = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event: ")) event = line.slice(7);
    else if (line.startsWith("data: ")) data.push(line.slice(6));
  }
  return data.length ? { event, data: data.join("\n") } : null;
}

/** Follows a stream until it ends or `signal` aborts it. Returns the HTTP status, or 0 if there was no response. */
export async function follow(path: string, onEvent: (event: ServerEvent) => void, signal: AbortSignal): Promise<number> {
  const headers: Record<string, string> = { accept: "text/event-stream" };
  if (key.value) headers["authorization"] = `Bearer ${key.value}`;
  try {
    const response = await fetch(path, { headers, signal, credentials: "omit", cache: "no-store", redirect: "error" });
    if (!response.ok || !response.body) return response.status;
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new EventParser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return response.status;
      parser.feed(value).forEach(onEvent);
    }
  } catch {
    // The connection was lost or aborted. The caller tries again, or not.
    return 0;
  }
}
