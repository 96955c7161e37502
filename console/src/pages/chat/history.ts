/** What was said before, as messages of the chat API: the model reads its own calls, and what came of them. */

import type { JsonObject } from "../../api/types";
import type { CallItem, Turn } from "./transcript";

/** Where the gateway went on without repeating what it had told the model. */
const NO_LEAVE = "denied: no leave was given";

export function messagesOf(turns: readonly Turn[]): JsonObject[] {
  const messages: JsonObject[] = [];
  let calls = 0;
  for (const turn of turns) {
    messages.push({ role: "user", content: turn.said });
    for (let round = 0; round <= turn.round; round += 1) {
      const items = turn.items.filter((item) => item.round === round);
      const text = items.map((item) => (item.kind === "text" ? item.text.text : "")).join("");
      // A call without a result is none that a model could go on from.
      const answered = items.filter((item): item is CallItem => item.kind === "call" && isAnswered(item));
      // Engines count anew in each round; in one history no two may have the same name.
      const named = answered.map((call) => ({ call, id: `call_${(calls += 1)}` }));
      if (text || named.length > 0) messages.push(spoken(text, named));
      for (const { call, id } of named) messages.push(result(call, id));
    }
  }
  return messages;
}

function isAnswered(call: CallItem): boolean {
  return call.result !== null || call.state === "denied";
}

interface Named {
  readonly call: CallItem;
  readonly id: string;
}

function spoken(text: string, named: readonly Named[]): JsonObject {
  if (named.length === 0) return { role: "assistant", content: text };
  const calls = named.map(({ call, id }) => ({
    id,
    type: "function",
    function: { name: call.name, arguments: call.ranWith || call.arguments },
  }));
  return { role: "assistant", content: text || null, tool_calls: calls };
}

function result(call: CallItem, id: string): JsonObject {
  const content = call.result ? call.result.content : NO_LEAVE;
  return { role: "tool", tool_call_id: id, content: typeof content === "string" ? content : JSON.stringify(content) };
}
