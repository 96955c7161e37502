/** The Traces page: a list of conversations, or one of them. */

import type { PageProps } from "../props";
import { ConversationList } from "./Conversations";
import { Trace } from "./Trace";
import "./traces.css";

export default function Traces({ id }: PageProps) {
  return id ? <Trace key={id} id={id} /> : <ConversationList />;
}
