/** Which of the gateway's tools the model is offered. */

import { useState } from "preact/hooks";
import { Badge } from "../../parts/Badge";
import { Dialog } from "../../parts/Dialog";
import { Empty } from "../../parts/Empty";
import { Shown } from "../../parts/Shown";
import { offer, tools } from "./chat";

const FILTER_FROM = 10;

export function ToolPicker({ onClose }: { readonly onClose: () => void }) {
  const [text, setText] = useState("");
  const names = tools.value.map((one) => one.name);
  const chosen = new Set(offer.value === "all" ? names : offer.value === "none" ? [] : offer.value);
  const wanted = text.trim().toLowerCase();
  const found = tools.value.filter((one) => `${one.name} ${one.description}`.toLowerCase().includes(wanted));
  const toggle = (name: string): void => {
    if (chosen.has(name)) chosen.delete(name);
    else chosen.add(name);
    offer.value = chosen.size === names.length ? "all" : chosen.size === 0 ? "none" : [...chosen];
  };
  return (
    <Dialog title="Tools to offer" onClose={onClose}>
      {names.length === 0 ? (
        <Empty title="This gateway has no tools of its own">
          <code>ferrule serve --tools my_tools.py:TOOLS</code> gives it some.
        </Empty>
      ) : (
        <div class="stack">
          <div class="row">
            <button type="button" aria-pressed={offer.value === "all"} onClick={() => (offer.value = "all")}>
              All {names.length}
            </button>
            <button type="button" aria-pressed={offer.value === "none"} onClick={() => (offer.value = "none")}>
              None
            </button>
            {names.length > FILTER_FROM && (
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
            {found.map((one) => (
              <li key={one.name}>
                <label class="tool-choice">
                  <input type="checkbox" checked={chosen.has(one.name)} onChange={() => toggle(one.name)} />
                  <span>
                    <strong>
                      <Shown text={one.name} manner="exact" />
                    </strong>{" "}
                    {one.side_effects && <Badge tone="warn">changes the world</Badge>}
                    <span class="tool-words small">
                      <Shown text={one.description} manner="exact" />
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
