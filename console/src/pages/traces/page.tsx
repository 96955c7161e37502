/** The Traces page: a list of traces, or one of them. */

import type { PageProps } from "../props";
import { Trace } from "./Trace";
import { TraceList } from "./TraceList";
import "./traces.css";

export default function Traces({ id }: PageProps) {
  return id ? <Trace key={id} id={id} /> : <TraceList />;
}
