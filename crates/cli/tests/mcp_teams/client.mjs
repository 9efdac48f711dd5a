// What the official clients for TypeScript do with a server of ours: a call with progress, a resource, and a fault.
//
// client.mjs PACKAGE REVISION (URL KEY | COMMAND ARGUMENTS...), where PACKAGE is `client` (the newest revision, and the
// one before) or `sdk` (the one before, as most clients still have it).
import { createRequire } from "node:module";

const require = createRequire(`${process.env.GHOSTLIGHT_MCP_PEERS}/`);
const [kind, revision, target, ...rest] = process.argv.slice(2);
const isNew = kind === "client";
const part = (name) => require(`@modelcontextprotocol/${kind}${name}`);
const { Client } = part(isNew ? "" : "/client/index.js");
const { StdioClientTransport } = part(isNew ? "/stdio" : "/client/stdio.js");
const { StreamableHTTPClientTransport } = part(isNew ? "" : "/client/streamableHttp.js");

const mode = revision === "2026-07-28" ? { pin: revision } : "legacy";
const client = new Client({ name: "a-client", version: "1" }, { versionNegotiation: { mode } });
const headers = { authorization: `Bearer ${rest[0]}` };
const transport = target.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } })
  : new StdioClientTransport({ command: target, args: rest });
await client.connect(transport);
// The client forgets who wants progress as soon as the result is there, and hears of progress a moment after it was read. So
// of two lines that are read at once it loses the first, unless the second waits for that moment.
const hear = transport.onmessage;
transport.onmessage = (message, ...more) =>
  "result" in message ? setImmediate(() => hear(message, ...more)) : hear(message, ...more);

const { tools } = await client.listTools();
console.log("tools", JSON.stringify(tools.map((tool) => tool.name)));
const told = [];
const call = { name: "clerk", arguments: { message: "What is 17% of 2340?", session: "ts" } };
const options = { onprogress: (news) => told.push(news.message) };
const result = isNew
  ? await client.callTool(call, options)
  : await client.callTool(call, undefined, options);
console.log("answer", result.content[0].text);
console.log("progress", JSON.stringify(told));
const { resources } = await client.listResources();
console.log("resources", JSON.stringify(resources.map((resource) => resource.uri)));
const read = await client.readResource({ uri: resources[0].uri });
console.log("read", read.contents[0].text.includes("2340"));
const fault = await client.callTool({ name: "nobody", arguments: {} }).catch((error) => error);
console.log("unknown", fault.code, fault.message);
await client.close();
