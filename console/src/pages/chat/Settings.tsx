/** The chat settings: engine, tools and options. */

import { useState } from "preact/hooks";
import { clear, isCallRequired, isActive, isRawShown, model, models, offer, tools, turns } from "./chat";
import { ToolPicker } from "./ToolPicker";

export function Settings() {
  const [isPickerOpen, setPickerOpen] = useState(false);
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
        <button
          type="button"
          aria-haspopup="dialog"
          aria-label={`Tools: ${offerLabel()}`}
          onClick={() => setPickerOpen(true)}
        >
          {offerLabel()}
        </button>
      </div>
      <label class="setting">
        <input
          type="checkbox"
          checked={isCallRequired.value}
          disabled={offerCount() === 0}
          onChange={(event) => (isCallRequired.value = event.currentTarget.checked)}
        />
        <span>Require a call</span>
      </label>
      <label class="setting">
        <input
          type="checkbox"
          checked={isRawShown.value}
          onChange={(event) => (isRawShown.value = event.currentTarget.checked)}
        />
        <span>Raw</span>
      </label>
      <button type="button" class="quiet new-chat" disabled={turns.value.length === 0 && !isActive()} onClick={clear}>
        New chat
      </button>
      {isPickerOpen && <ToolPicker onClose={() => setPickerOpen(false)} />}
    </div>
  );
}

function offerCount(): number {
  if (offer.value === "none") return 0;
  return offer.value === "all" ? tools.value.length : offer.value.length;
}

function offerLabel(): string {
  if (tools.value.length === 0) return "none available";
  if (offer.value === "all") return `all ${tools.value.length}`;
  return offerCount() === 0 ? "none" : `${offerCount()} of ${tools.value.length}`;
}
