/** Tools: where they come from, what each takes and how it is held to that, and what models do with them. */

import { place } from "../../router";
import type { PageProps } from "../props";
import { List } from "./List";
import { OneTool } from "./OneTool";
import { Picked } from "./Picked";
import "./tools.css";

export default function Tools({ id }: PageProps) {
  if (id) return <OneTool key={id} name={id} />;
  return place.value.query.get("view") === "picked" ? <Picked /> : <List />;
}
