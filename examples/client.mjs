// Creates a session, appends a turn, forks it and replays the fork, through the official TypeScript SDK.
//
//   npm install @agentclientprotocol/sdk@2.4.0
//   node examples/client.mjs sessiond serve --store memory:
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { PROTOCOL_VERSION, client, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const [command = "sessiond", ...args] = process.argv.slice(2);
const daemon = spawn(command, args.length ? args : ["serve", "--store", "memory:"], {
  stdio: ["pipe", "pipe", "inherit"],
});

// Updates of a history come before the answer to its load.
const app = client().onNotification(methods.client.session.update, ({ params }) =>
  console.log("replayed", JSON.stringify(params.update)),
);
const connection = app.connect(ndJsonStream(Writable.toWeb(daemon.stdin), Readable.toWeb(daemon.stdout)));
const call = (method, params) => connection.agent.request(method, params);

const hello = await call("initialize", {
  protocolVersion: PROTOCOL_VERSION,
  clientCapabilities: {},
  clientInfo: { name: "example", version: "1.0.0" },
});
console.log(hello.agentInfo.name, hello.agentInfo.version);

const place = { cwd: process.cwd(), mcpServers: [] };
const { sessionId } = await call("session/new", place);

// The daemon runs no model: what an agent does is appended, here by the client itself.
const text = (text) => [{ type: "text", text }];
const source = { kind: "model", provider: "example", model: "none" };
const answer = { id: "a1", role: "assistant", content: text("Hello."), source };
const events = [
  { type: "turn/start", data: { turn: 1 } },
  {
    type: "user/message",
    data: { id: "u1", role: "user", content: text("Hi"), source: { kind: "user" } },
    surfaceOp: "append",
  },
  { type: "step/start", data: { turn: 1, step: 1 } },
  { type: "assistant/message", data: { turn: 1, step: 1, message: answer }, surfaceOp: "append" },
  { type: "step/end", data: { turn: 1, step: 1 } },
  { type: "turn/end", data: { turn: 1, reason: { kind: "completed" } } },
];
const { count } = await call("_session/append_batch", { sessionId, events });
console.log("appended", count, "events");

const fork = await call("session/fork", { sessionId, ...place });
console.log("forked after event", fork._meta.sessiond.boundary);
await call("session/load", { sessionId: fork.sessionId, ...place });

// Prompts are refused: this is a store.
await call("session/prompt", { sessionId, prompt: text("Hi") }).catch((error) => console.log(error.message));

for (const id of [sessionId, fork.sessionId]) await call("session/close", { sessionId: id });
daemon.stdin.end();
daemon.on("exit", (code) => process.exit(code));
