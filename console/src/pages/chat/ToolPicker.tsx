/** Selects which of the gateway's tools are offered to the model. */

import { useState } from "preact/hooks";
import { Badge } from "../../parts/Badge";
import { Dialog } from "../../parts/Dialog";
import { EmptyState } from "../../parts/EmptyState";
import { VisibleText } from "../../parts/VisibleText";
import { offer, tools } from "./chat";

const FILTER_THRESHOLD = 10;

export function ToolPicker({ onClose }: { readonly onClose: () => void }) {
  const [text, setText] = useState("");
  const names = tools.value.map((tool) => tool.name);
  const selected = new Set(offer.value === "all" ? names : offer.value === "none" ? [] : offer.value);
  const query = text.trim().toLowerCase();
  const matching = tools.value.filter((tool) => `${tool.name} ${tool.description}`.toLowerCase().includes(query));
  const toggle = (name: string): void => {
    if (selected.has(name)) selected.delete(name);
    else selected.add(name);
    offer.value = selected.size === names.length ? "all" : selected.size === 0 ? "none" : [...selected];
  };
  return (
    <Dialog title="Tools to offer" onClose={onClose}>
      {names.length === 0 ? (
        <EmptyState title="There are no tools to offer">
          Add some with <code>ferrule serve --tools my_tools.py:TOOLS</code>, or use a key whose <code>tools</code> name some.
        </EmptyState>
      ) : (
        <div class="stack">
          <div class="row">
            <button type="button" aria-pressed={offer.value === "all"} onClick={() => (offer.value = "all")}>
              All {names.length}
            </button>
            <button type="button" aria-pressed={offer.value === "none"} onClick={() => (offer.value = "none")}>
              None
            </button>
            {names.length > FILTER_THRESHOLD && (
              <input
                type="search"
                class="grow"
                aria-label="Find a tool"
                placeholder="Find a tool"
                value={text}
                onInput={(event) => setText(event.currentTarget.value)}
              />
            )}
          </div>
          <ul class="tool-list">
            {matching.map((tool) => (
              <li key={tool.name}>
                <label class="tool-choice">
                  <input type="checkbox" checked={selected.has(tool.name)} onChange={() => toggle(tool.name)} />
                  <span>
                    <strong>
                      <VisibleText text={tool.name} mode="exact" />
                    </strong>{" "}
                    {tool.side_effects && <Badge tone="warn">side effects</Badge>}
                    <span class="tool-summary small">
                      <VisibleText text={tool.description} mode="exact" />
                    </span>
                  </span>
                </label>
              </li>
            ))}
          </ul>
          <div class="row">
            <button type="button" class="primary" onClick={onClose}>
              Done
            </button>
          </div>
        </div>
      )}
    </Dialog>
  );
}
