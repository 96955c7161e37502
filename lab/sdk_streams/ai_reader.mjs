// What Vercel's AI SDK makes of a stream. One JSON line per request: {"provider", "url", "question", "choice",
// "max_tokens"}; one JSON line per answer: {"calls": [[name, input], ...], "raised"}. The SDK is in the folder that is
// the first argument, the tool in a JSON file that is the second.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.argv[2]}/package.json`);
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { streamText, tool, jsonSchema } = await load("ai");
const { createOpenAICompatible } = await load("@ai-sdk/openai-compatible");
const { createOpenAI } = await load("@ai-sdk/openai");
const { createAnthropic } = await load("@ai-sdk/anthropic");
const { name, schema } = JSON.parse(readFileSync(process.argv[3], "utf8"));

const providers = {
  compatible: (url) => createOpenAICompatible({ name: "gateway", baseURL: `${url}/v1`, apiKey: "none" })("m"),
  responses: (url) => createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" }).responses("m"),
  anthropic: (url) => createAnthropic({ baseURL: `${url}/v1`, apiKey: "none" })("m"),
};

async function read(request) {
  const calls = [];
  let raised = "";
  try {
    const result = streamText({
      model: providers[request.provider](request.url),
      prompt: request.question,
      tools: { [name]: tool({ description: "Pays.", inputSchema: jsonSchema(schema) }) },
      toolChoice: request.choice,
      maxOutputTokens: request.max_tokens,
      temperature: 0,
      maxRetries: 0,
      onError: () => {},
    });
    for await (const part of result.fullStream) {
      // The SDK marks a call that does not parse, does not fit or names no tool.
      if (part.type === "tool-call" && !part.invalid) calls.push([part.toolName, part.input]);
      if (part.type === "error") raised = String(part.error).slice(0, 200);
    }
  } catch (failure) {
    raised = String(failure).slice(0, 200);
  }
  return { calls, raised };
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await read(JSON.parse(line))));
}
