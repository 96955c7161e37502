/** The Tools page: sources, parameters, enforcement and usage. */

import { route } from "../../router";
import type { PageProps } from "../props";
import { ToolList } from "./ToolList";
import { ToolDetail } from "./ToolDetail";
import { UsageView } from "./UsageView";
import "./tools.css";

export default function Tools({ id }: PageProps) {
  if (id) return <ToolDetail key={id} name={id} />;
  return route.value.query.get("view") === "usage" ? <UsageView /> : <ToolList />;
}
