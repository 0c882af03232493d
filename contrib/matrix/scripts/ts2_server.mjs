// A server on the TypeScript SDK 2, which speaks both eras: one small thing of every kind.
import { McpServer, completable, inputRequired } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";

const MEMO = "memo://one";
const COLOURS = { type: "object", properties: { colour: { type: "string" } }, required: ["colour"] };
const text = (value) => ({ content: [{ type: "text", text: String(value) }] });
let cancelled = 0;
// Between two steps: some hosts forget who waits for progress as soon as the answer is there.
const pause = () => new Promise((resolve) => setTimeout(resolve, 50));

function make() {
  const server = new McpServer(
    { name: "matrix-ts2", version: "1" },
    { capabilities: { logging: {}, resources: { subscribe: true }, completions: {} } },
  );
  server.registerTool("echo", { inputSchema: z.object({ text: z.string() }) }, async ({ text: said }) => text(said));
  server.registerTool("steps", { inputSchema: z.object({ count: z.number() }) }, async ({ count }, ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (let progress = 1; progress <= count && progressToken !== undefined; progress++) {
      await pause();
      await ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: count } });
    }
    await pause();
    return text("done");
  });
  server.registerTool("nap", {}, (ctx) => new Promise((resolve) => {
    const timer = setTimeout(() => resolve(text("slept")), 30_000);
    ctx.mcpReq.signal.addEventListener("abort", () => { cancelled++; clearTimeout(timer); resolve(text("woken")); });
  }));
  server.registerTool("cancelled", {}, async () => text(cancelled));
  server.registerTool("speak", {}, async (ctx) => {
    await ctx.mcpReq.log("warning", "spoken");
    return text("spoke");
  });
  server.registerTool("touch", {}, async () => {
    await server.server.sendResourceUpdated({ uri: MEMO });
    return text("touched");
  });
  // What is returned works in both eras: towards a handshake client the SDK asks the questions itself.
  server.registerTool("ask", {}, async (ctx) => {
    const said = ctx.mcpReq.inputResponses?.colour;
    if (!said) {
      const params = { message: "Which colour?", requestedSchema: COLOURS };
      return inputRequired({ inputRequests: { colour: inputRequired.elicit(params) } });
    }
    return text(`${said.action} ${said.content?.colour}`);
  });
  server.registerTool("sample", {}, async (ctx) => {
    const told = ctx.mcpReq.inputResponses?.told;
    if (!told) {
      const messages = [{ role: "user", content: { type: "text", text: "say it" } }];
      return inputRequired({ inputRequests: { told: inputRequired.createMessage({ messages, maxTokens: 10 }) } });
    }
    return text(told.content.text);
  });
  server.registerTool("roots", {}, async (ctx) => {
    const found = ctx.mcpReq.inputResponses?.found;
    if (!found) return inputRequired({ inputRequests: { found: inputRequired.listRoots() } });
    return text(found.roots.map((root) => root.uri).join(" "));
  });
  server.registerResource("one", MEMO, {}, async (uri) => ({ contents: [{ uri: uri.href, text: "the memo" }] }));
  const names = (value) => ["anna", "bert"].filter((name) => name.startsWith(value));
  const argsSchema = z.object({ name: completable(z.string(), names) });
  server.registerPrompt("greet", { argsSchema }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Greet ${name}` } }],
  }));
  server.server.setRequestHandler("resources/subscribe", async () => ({}));
  server.server.setRequestHandler("resources/unsubscribe", async () => ({}));
  return server;
}

serveStdio(make);
