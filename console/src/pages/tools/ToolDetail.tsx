/** One tool: its description, parameters, enforcement and usage. */

import * as gateway from "../../api/gateway";
import { useFetch } from "../../parts/useFetch";
import { Badge } from "../../parts/Badge";
import { Loading } from "../../parts/EmptyState";
import { Problem } from "../../parts/Problem";
import { VisibleText } from "../../parts/VisibleText";
import { pathTo } from "../../router";
import { DefinitionUsage } from "./DefinitionUsage";
import { EnforcementMatrix } from "./EnforcementMatrix";
import { SchemaView } from "./SchemaView";

export function ToolDetail({ name }: { readonly name: string }) {
  const tool = useFetch(name, () => gateway.tool(name));
  return (
    <div class="page">
      <p class="small">
        <a href={pathTo("tools")}>← All tools</a>
      </p>
      <header class="row">
        <h1 class="tool-title">
          <VisibleText text={name} mode="exact" />
        </h1>
        {tool.value &&
          (tool.value.side_effects ? (
            <Badge tone="warn">side effects: every call needs approval</Badge>
          ) : (
            <Badge>read-only</Badge>
          ))}
      </header>
      {tool.problem && <Problem problem={tool.problem} onRetry={tool.retry} />}
      {!tool.value && !tool.problem && <Loading what="the tool" />}
      {tool.value && (
        <>
          <p class="tool-description">
            {tool.value.description ? <VisibleText text={tool.value.description} /> : <span class="dim">No description.</span>}
          </p>
          <dl class="facts">
            <dt>Source</dt>
            <dd>
              <VisibleText text={tool.value.source} />
            </dd>
            {tool.value.bound_to && (
              <>
                <dt>Bound to</dt>
                <dd>
                  <code>
                    <VisibleText text={`${tool.value.bound_to.capability}@${tool.value.bound_to.version}`} mode="exact" />
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
          <EnforcementMatrix enforcement={tool.value.enforcement} />
        </>
      )}
      <DefinitionUsage tool={name} now={tool.value?.fingerprint ?? ""} />
    </div>
  );
}
