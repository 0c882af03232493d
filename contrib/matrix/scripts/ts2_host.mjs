// A host on the TypeScript SDK 2, in either era.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { main, plan } from "./checks.mjs";

const LEVEL = "io.modelcontextprotocol/logLevel";
const text = (told) => told.content.map((block) => block.text ?? "").join(" ");

await main(async ([program, ...args], seen) => {
  const client = new Client({ name: "matrix-ts2", version: "1" }, {
    capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} },
    versionNegotiation: { mode: plan.era === "legacy" ? "legacy" : "auto" },
  });
  client.setRequestHandler("elicitation/create", async () => ({
    action: "accept", content: plan.words.elicit.content,
  }));
  client.setRequestHandler("sampling/createMessage", async () => ({
    role: "assistant", model: "none", content: { type: "text", text: "sampled by the host" },
  }));
  client.setRequestHandler("roots/list", async () => ({
    roots: [{ uri: "file:///matrix/root", name: "root" }],
  }));
  client.setNotificationHandler("notifications/message", ({ params }) => { seen.logs.push(params.data); });
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => { seen.updates.push(params.uri); });
  await client.connect(new StdioClientTransport({ command: program, args, env: plan.env, stderr: "inherit" }));
  const version = client.getNegotiatedProtocolVersion();
  const modern = version >= "2026";
  return {
    version,
    close: () => client.close(),
    tools: async () => (await client.listTools()).tools.map((tool) => tool.name),
    call: async (name, args_, note, signal) => text(await client.callTool(
      { name, arguments: args_, ...(modern && { _meta: { [LEVEL]: "debug" } }) },
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
    setLevel: async (level) => { if (!modern) await client.setLoggingLevel(level); },
    subscribe: async (uri) => {
      if (modern) {
        const listening = await client.listen({ resourceSubscriptions: [uri] });
        return () => listening.close();
      }
      await client.subscribeResource({ uri });
      return () => client.unsubscribeResource({ uri });
    },
  };
});
