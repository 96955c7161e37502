/** One tool: what models are told of it, what it takes, what holds a call to that, and what became of it. */

import * as gateway from "../../api/gateway";
import { useAnswer } from "../../parts/asked";
import { Badge } from "../../parts/Badge";
import { Loading } from "../../parts/Empty";
import { Problem } from "../../parts/Problem";
import { Shown } from "../../parts/Shown";
import { to } from "../../router";
import { Definitions } from "./Definitions";
import { MatrixView } from "./MatrixView";
import { SchemaView } from "./SchemaView";

export function OneTool({ name }: { readonly name: string }) {
  const tool = useAnswer(name, () => gateway.tool(name));
  return (
    <div class="page">
      <p class="small">
        <a href={to("tools")}>← All tools</a>
      </p>
      <header class="row">
        <h1 class="tool-title">
          <Shown text={name} manner="exact" />
        </h1>
        {tool.value &&
          (tool.value.side_effects ? (
            <Badge tone="warn">changes the world: every call needs leave</Badge>
          ) : (
            <Badge>only reads</Badge>
          ))}
      </header>
      {tool.problem && <Problem problem={tool.problem} again={tool.again} />}
      {!tool.value && !tool.problem && <Loading what="the tool" />}
      {tool.value && (
        <>
          <p class="tool-description">
            {tool.value.description ? <Shown text={tool.value.description} /> : <span class="dim">It has no description.</span>}
          </p>
          <dl class="facts">
            <dt>Source</dt>
            <dd>
              <Shown text={tool.value.source} />
            </dd>
            {tool.value.bound_to && (
              <>
                <dt>Bound to</dt>
                <dd>
                  <code>
                    <Shown text={`${tool.value.bound_to.capability}@${tool.value.bound_to.version}`} manner="exact" />
                  </code>
                </dd>
              </>
            )}
            <dt>Definition</dt>
            <dd>
              <code class="hash">{tool.value.fingerprint}</code>
            </dd>
          </dl>
          <SchemaView schema={tool.value.parameters} />
          <MatrixView enforcement={tool.value.enforcement} />
        </>
      )}
      <Definitions tool={name} now={tool.value?.fingerprint ?? ""} />
    </div>
  );
}
