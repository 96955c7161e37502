/** The Keys page: the keys in the ledger, for those who may manage them. */

import { EmptyState } from "../../parts/EmptyState";
import { rights } from "../../state/session";
import { KeyList } from "./KeyList";
import "./keys.css";

export default function Keys() {
  if (rights.value.has("admin")) return <KeyList />;
  return (
    <div class="page">
      <header class="page-head">
        <h1>Keys</h1>
      </header>
      <EmptyState title="Your key cannot manage keys">
        Only a key with the <code>admin</code> right sees and changes the keys of its tenant. Ask an admin for the key that you
        need. With access to the ledger,{" "}
        <code>ferrule keys create NAME --admin --ledger ADDRESS</code> creates an admin's key.
      </EmptyState>
    </div>
  );
}
