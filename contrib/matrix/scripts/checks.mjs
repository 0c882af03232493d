// What a host on a TypeScript SDK does with a server: the same checks as in checks.py, for both SDKs.
export const LIMIT = 25_000;
const ECHOES = 10;

export const plan = JSON.parse(process.argv[2]);
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function expect(condition, text) {
  if (!condition) throw new Error(text);
}

// What the server sent by itself; `until` returns once there is something in a list.
export class Seen {
  logs = [];
  updates = [];
  async until(items) {
    while (items.length === 0) await pause(20);
  }
}

export const checks = {
  async tools(host, { echo }) {
    expect((await host.tools()).includes(echo.tool), "the tool is not listed");
    const tags = Array.from({ length: ECHOES }, (_, number) => `${plan.tag}-${number}`);
    const told = await Promise.all(tags.map((tag) => host.call(echo.tool, { [echo.argument]: tag })));
    tags.forEach((tag, at) => expect(told[at].includes(tag), `${told[at]} is not the answer for ${tag}`));
  },
  async resources(host, { resource }) {
    await host.resources();
    expect((await host.read(resource.uri)).includes(resource.text), "another text was read");
  },
  async prompts(host, { prompt }) {
    expect((await host.prompts()).includes(prompt.name), "the prompt is not listed");
    expect((await host.prompt(prompt.name, prompt.arguments)).includes(prompt.text), "another prompt was told");
  },
  async completion(host, { complete }) {
    const told = await host.complete(complete.prompt, complete.argument, complete.value);
    expect(told.length === 1 && told[0] === complete.text, `${told} was completed`);
  },
  async progress(host, { progress }) {
    const values = [];
    await host.call(progress.tool, progress.arguments, (value) => values.push(value));
    const rising = values.every((value, at) => at === 0 || value > values[at - 1]);
    expect(values.length >= 2 && rising, `progress was ${values}`);
  },
  async cancel(host, { nap, echo }) {
    const given = new AbortController();
    const call = host.call(nap.tool, nap.arguments, undefined, given.signal).then(() => "answered", () => "given up");
    await pause(500);
    given.abort("enough");
    expect((await call) === "given up", "the call was answered");
    expect((await host.call(echo.tool, { [echo.argument]: "after" })).includes("after"), "no answer afterwards");
    while (nap.count && Number(await host.call(nap.count, {})) < 1) await pause(100);
  },
  async logging(host, { log }, seen) {
    await host.setLevel("debug");
    await toggle(host, log);
    await seen.until(seen.logs);
  },
  async subscriptions(host, { subscribe }, seen) {
    const end = await host.subscribe(subscribe.uri);
    await toggle(host, subscribe);
    await seen.until(seen.updates);
    expect(seen.updates[0] === subscribe.uri, `${seen.updates[0]} was updated`);
    await end();
  },
  elicitation: (host, { elicit }) => asks(host, elicit),
  sampling: (host, { sample }) => asks(host, sample),
  roots: (host, { roots }) => asks(host, roots),
};

// Start something at a server that may have it running for somebody else, and stops it then.
async function toggle(host, word) {
  if ((await host.call(word.tool, {})).includes("Stopped")) await host.call(word.tool, {});
}

async function asks(host, word) {
  const told = await host.call(word.tool, word.arguments ?? {});
  expect(told.includes(word.text), `the answer was ${told.slice(0, 200)}`);
}

async function outcome(name, host, seen) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no end within ${LIMIT / 1000} s`)), LIMIT);
  });
  try {
    await Promise.race([checks[name](host, plan.words, seen), late]);
    return "";
  } catch (error) {
    return `${error.name}: ${error.message}`.slice(0, 300);
  } finally {
    clearTimeout(timer);
  }
}

// `connect(command, seen)` returns a host with `version` and `close`.
export async function main(connect) {
  const found = {};
  let version = "";
  for (const [command, names] of plan.connections) {
    const seen = new Seen();
    const host = await connect(command, seen);
    version = host.version;
    for (const name of names) found[name] = await outcome(name, host, seen);
    await host.close();
  }
  process.stdout.write(`${JSON.stringify({ version, checks: found })}\n`, () => process.exit(0));
}
