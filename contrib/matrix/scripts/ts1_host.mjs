// A host on the TypeScript SDK 1.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema,
  LoggingMessageNotificationSchema, ResourceUpdatedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { main, plan } from "./checks.mjs";

const text = (told) => told.content.map((block) => block.text ?? "").join(" ");

await main(async ([program, ...args], seen) => {
  const capabilities = { elicitation: {}, sampling: {}, roots: {} };
  const client = new Client({ name: "matrix-ts1", version: "1" }, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, async () => ({
    action: "accept", content: plan.words.elicit.content,
  }));
  client.setRequestHandler(CreateMessageRequestSchema, async () => ({
    role: "assistant", model: "none", content: { type: "text", text: "sampled by the host" },
  }));
  client.setRequestHandler(ListRootsRequestSchema, async () => ({
    roots: [{ uri: "file:///matrix/root", name: "root" }],
  }));
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => { seen.logs.push(params.data); });
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => { seen.updates.push(params.uri); });
  let version = "";
  const transport = new StdioClientTransport({ command: program, args, env: plan.env, stderr: "inherit" });
  transport.setProtocolVersion = (spoken) => { version = spoken; };
  await client.connect(transport);
  return {
    version,
    close: () => client.close(),
    tools: async () => (await client.listTools()).tools.map((tool) => tool.name),
    call: async (name, args_, note, signal) => text(await client.callTool(
      { name, arguments: args_ }, undefined,
      { signal, ...(note && { onprogress: ({ progress }) => note(progress) }) },
    )),
    resources: async () => (await client.listResources()).resources.map((one) => one.uri),
    read: async (uri) => (await client.readResource({ uri })).contents[0].text ?? "",
    prompts: async () => (await client.listPrompts()).prompts.map((prompt) => prompt.name),
    prompt: async (name, args_) =>
      (await client.getPrompt({ name, arguments: args_ })).messages[0].content.text ?? "",
    complete: async (name, argument, value) => (await client.complete({
      ref: { type: "ref/prompt", name }, argument: { name: argument, value },
    })).completion.values,
    setLevel: (level) => client.setLoggingLevel(level),
    subscribe: async (uri) => {
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
  };
});
