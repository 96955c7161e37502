/** Previous turns as messages of the chat API, with the model's tool calls and their results. */

import type { JsonObject } from "../../api/types";
import type { CallItem, Turn } from "./transcript";

/** The result of a denied call for which the gateway sent no result frame. */
const DENIED_RESULT = "denied by the user";

export function messagesOf(turns: readonly Turn[]): JsonObject[] {
  const messages: JsonObject[] = [];
  let calls = 0;
  for (const turn of turns) {
    messages.push({ role: "user", content: turn.userText });
    for (let round = 0; round <= turn.round; round += 1) {
      const items = turn.items.filter((item) => item.round === round);
      const text = items.map((item) => (item.kind === "text" ? item.text.text : "")).join("");
      // A model cannot continue from a call without a result.
      const completed = items.filter((item): item is CallItem => item.kind === "call" && isAnswered(item));
      // Engines restart their call ids in each round, but ids must be unique in one history.
      const numbered = completed.map((call) => ({ call, id: `call_${(calls += 1)}` }));
      if (text || numbered.length > 0) messages.push(assistantMessage(text, numbered));
      for (const { call, id } of numbered) messages.push(toolMessage(call, id));
    }
  }
  return messages;
}

function isAnswered(call: CallItem): boolean {
  return call.result !== null || call.state === "denied";
}

interface NumberedCall {
  readonly call: CallItem;
  readonly id: string;
}

function assistantMessage(text: string, numbered: readonly NumberedCall[]): JsonObject {
  if (numbered.length === 0) return { role: "assistant", content: text };
  const calls = numbered.map(({ call, id }) => ({
    id,
    type: "function",
    function: { name: call.name, arguments: call.ranWith || call.arguments },
  }));
  return { role: "assistant", content: text || null, tool_calls: calls };
}

function toolMessage(call: CallItem, id: string): JsonObject {
  const content = call.result ? call.result.content : DENIED_RESULT;
  return { role: "tool", tool_call_id: id, content: typeof content === "string" ? content : JSON.stringify(content) };
}
