/** With whom, with which tools, and how. */

import { useState } from "preact/hooks";
import { clear, isRequired, isUnderWay, isWireShown, model, models, offer, tools, turns } from "./chat";
import { ToolPicker } from "./ToolPicker";

export function Settings() {
  const [isPicking, setPicking] = useState(false);
  return (
    <div class="settings">
      <label class="setting">
        <span class="setting-name">Engine</span>
        <select value={model.value} onChange={(event) => (model.value = event.currentTarget.value)}>
          {(models.value ?? []).map((one) => (
            <option key={one.id} value={one.id}>
              {one.display_name}
            </option>
          ))}
        </select>
      </label>
      <div class="setting">
        <span class="setting-name" aria-hidden="true">
          Tools
        </span>
        <button type="button" aria-haspopup="dialog" aria-label={`Tools: ${offered()}`} onClick={() => setPicking(true)}>
          {offered()}
        </button>
      </div>
      <label class="setting">
        <input
          type="checkbox"
          checked={isRequired.value}
          disabled={count() === 0}
          onChange={(event) => (isRequired.value = event.currentTarget.checked)}
        />
        <span>Must call</span>
      </label>
      <label class="setting">
        <input
          type="checkbox"
          checked={isWireShown.value}
          onChange={(event) => (isWireShown.value = event.currentTarget.checked)}
        />
        <span>Wire</span>
      </label>
      <button type="button" class="quiet new-chat" disabled={turns.value.length === 0 && !isUnderWay()} onClick={clear}>
        New chat
      </button>
      {isPicking && <ToolPicker onClose={() => setPicking(false)} />}
    </div>
  );
}

function count(): number {
  if (offer.value === "none") return 0;
  return offer.value === "all" ? tools.value.length : offer.value.length;
}

function offered(): string {
  if (tools.value.length === 0) return "none here";
  if (offer.value === "all") return `all ${tools.value.length}`;
  return count() === 0 ? "none" : `${count()} of ${tools.value.length}`;
}
