// Conversations of a TypeScript SDK with one MCP server. It has no model: see `fastmcp` in clients.py, which this does likewise.
//
//     node clients.mjs DIRECTORY PACKAGE PROGRAM [ARGUMENT]...
//
// DIRECTORY has `node_modules` with PACKAGE: `@modelcontextprotocol/sdk` or `@modelcontextprotocol/client`. PROGRAM with its arguments is the server, or its
// address and its token.

import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [directory, name, program, ...args] = process.argv.slice(2);
const { resolve } = createRequire(join(directory, "here.cjs"));
const load = (path) => import(pathToFileURL(resolve(`${name}/${path}`)).href);
const isNew = name.endsWith("/client");
const main = isNew ? await import(pathToFileURL(resolve(name)).href) : await load("client/index.js");

async function transport() {
  if (program.startsWith("http://")) {
    const { StreamableHTTPClientTransport } = isNew ? main : await load("client/streamableHttp.js");
    return new StreamableHTTPClientTransport(new URL(program), { requestInit: { headers: { Authorization: `Bearer ${args[0]}` } } });
  }
  const { StdioClientTransport } = await load(isNew ? "stdio" : "client/stdio.js");
  return new StdioClientTransport({ command: program, args, env: process.env });
}

async function open() {
  const client = new main.Client({ name: "example-client", version: "1.0.0" }, { capabilities: {} });
  await client.connect(await transport());
  return async (call) => {
    try {
      const got = await client.callTool({ name: call.tool, arguments: call.arguments });
      const texts = got.content.map((part) => part.text);
      return { first_text: texts[0], structured: JSON.stringify(got.structuredContent ?? null), texts: texts.length };
    } catch (error) {
      return { error: String(error) };
    }
  };
}

const say = (said) => process.stdout.write(`${JSON.stringify(said)}\n`);
const conversations = new Map();
for await (const line of createInterface({ input: process.stdin })) {
  const { conversation, prompt } = JSON.parse(line);
  if (!conversations.has(conversation)) conversations.set(conversation, open());
  const turn = conversations.get(conversation).then((one) => one(prompt));
  turn.then((answer) => say({ conversation, answer }), (error) => say({ conversation, error: String(error) }));
}
process.exit(0);
