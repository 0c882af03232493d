// A server on the TypeScript SDK 1: one small thing of every kind.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { completable } from "@modelcontextprotocol/sdk/server/completable.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { SubscribeRequestSchema, UnsubscribeRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";

const MEMO = "memo://one";
const server = new McpServer(
  { name: "matrix-ts1", version: "1" },
  { capabilities: { logging: {}, resources: { subscribe: true }, completions: {} } },
);
let cancelled = 0;
// Between two steps: some hosts forget who waits for progress as soon as the answer is there.
const pause = () => new Promise((resolve) => setTimeout(resolve, 50));
const text = (value) => ({ content: [{ type: "text", text: String(value) }] });

server.registerTool("echo", { inputSchema: { text: z.string() } }, async ({ text: said }) => text(said));
server.registerTool("steps", { inputSchema: { count: z.number() } }, async ({ count }, extra) => {
  const progressToken = extra._meta?.progressToken;
  for (let progress = 1; progress <= count && progressToken !== undefined; progress++) {
    await pause();
    await extra.sendNotification({
      method: "notifications/progress",
      params: { progressToken, progress, total: count },
    });
  }
  await pause();
  return text("done");
});
server.registerTool("nap", {}, (extra) => new Promise((resolve) => {
  const timer = setTimeout(() => resolve(text("slept")), 30_000);
  extra.signal.addEventListener("abort", () => { cancelled++; clearTimeout(timer); resolve(text("woken")); });
}));
server.registerTool("cancelled", {}, async () => text(cancelled));
server.registerTool("speak", {}, async (extra) => {
  await extra.sendNotification({ method: "notifications/message", params: { level: "warning", data: "spoken" } });
  return text("spoke");
});
server.registerTool("touch", {}, async () => {
  await server.server.sendResourceUpdated({ uri: MEMO });
  return text("touched");
});
server.registerTool("ask", {}, async () => {
  const said = await server.server.elicitInput({
    message: "Which colour?",
    requestedSchema: { type: "object", properties: { colour: { type: "string" } }, required: ["colour"] },
  });
  return text(`${said.action} ${said.content?.colour}`);
});
server.registerTool("sample", {}, async () => {
  const messages = [{ role: "user", content: { type: "text", text: "say it" } }];
  const told = await server.server.createMessage({ messages, maxTokens: 10 });
  return text(told.content.text);
});
server.registerTool("roots", {}, async () => {
  const found = await server.server.listRoots();
  return text(found.roots.map((root) => root.uri).join(" "));
});
server.registerResource("one", MEMO, {}, async (uri) => ({ contents: [{ uri: uri.href, text: "the memo" }] }));
const names = (value) => ["anna", "bert"].filter((name) => name.startsWith(value));
server.registerPrompt("greet", { argsSchema: { name: completable(z.string(), names) } }, ({ name }) => ({
  messages: [{ role: "user", content: { type: "text", text: `Greet ${name}` } }],
}));
server.server.setRequestHandler(SubscribeRequestSchema, async () => ({}));
server.server.setRequestHandler(UnsubscribeRequestSchema, async () => ({}));
await server.connect(new StdioServerTransport());
