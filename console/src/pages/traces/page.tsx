/** What was said and done: conversations to look for, and one of them from beginning to end. */

import type { PageProps } from "../props";
import { Conversations } from "./Conversations";
import { Trace } from "./Trace";
import "./traces.css";

export default function Traces({ id }: PageProps) {
  return id ? <Trace key={id} id={id} /> : <Conversations />;
}
