//! The known types, one by one: what each is for, and examples of its `data`.

use serde_json::Value;

use super::defs::Defs;
use crate::log::Kind;
use crate::protocol::{bookkeeping as kept, payloads as is};

/// Of each known type (FORMAT 3): its name, what it is for, and examples of its data as JSON texts. Of types that
/// nothing here reads the purpose is told as far as their names and public logs tell it.
pub(super) const KNOWN: [(&str, &str, &[&str]); 51] = [
    ("turn/start", "A turn begins: the agent sets to work on what was said.", &[r#"{"turn":1}"#]),
    (
        "turn/end",
        "The open turn is over, and why. Boundaries of forks and snapshots lie outside turns.",
        &[
            r#"{"turn":1,"reason":{"kind":"completed"}}"#,
            r#"{"turn":1,"reason":{"kind":"aborted","reason":{"kind":"user"}}}"#,
            r#"{"turn":1,"reason":{"kind":"error","error":{"message":"too many requests","code":"RATE_LIMIT","status":429}}}"#,
        ],
    ),
    (
        "step/start",
        "A step of the open turn begins: one call of the model and the tools that it asks for.",
        &[r#"{"turn":1,"step":1}"#],
    ),
    (
        "step/end",
        "The open step is over; its calls without a result will get none.",
        &[r#"{"turn":1,"step":1}"#],
    ),
    (
        "user/message",
        "A message of the role user: from the user, or put in by a plugin. As a replacement, a summary of what it shadows. The message is the data itself.",
        &[
            r#"{"role":"user","content":[{"type":"text","text":"How long is a kilometre?"}],"source":{"kind":"user"}}"#,
            r#"{"id":"m-2","role":"user","content":[{"type":"text","text":"Two files changed."}],"source":{"kind":"plugin","plugin":"watch"}}"#,
        ],
    ),
    (
        "assistant/chunk",
        "A piece of the model's stream, kept so that a crash loses nothing; the assistant/message of the step says it all again.",
        &[
            r#"{"turn":1,"step":1,"chunk":{"type":"text-delta","index":0,"text":"1000"}}"#,
            r#"{"turn":1,"step":1,"chunk":{"type":"tool-call-delta","index":1,"id":"call-1","name":"read","argumentsDelta":"{\"path\":"}}"#,
        ],
    ),
    (
        "assistant/message",
        "What the model said in the open step.",
        &[
            r#"{"turn":1,"step":1,"message":{"role":"assistant","content":[{"type":"text","text":"1000 metres."}],"source":{"kind":"model","provider":"example","model":"example-1"}}}"#,
            r#"{"turn":1,"step":1,"message":{"id":"m-4","role":"assistant","content":[{"type":"reasoning","text":"I have to look."},{"type":"tool-call","id":"call-1","name":"read","arguments":"{\"path\":\"a.txt\"}"}],"source":{"kind":"model","provider":"example","model":"example-1"}},"usage":{"inputTokens":10,"outputTokens":5}}"#,
        ],
    ),
    (
        "tool/call",
        "A tool that the model asked for was started.",
        &[r#"{"turn":1,"step":1,"callId":"call-1","name":"read","arguments":"{\"path\":\"a.txt\"}"}"#],
    ),
    (
        "tool/result",
        "What a tool gave, as the message that the model gets. As a replacement, the same with a shorter content.",
        &[
            r#"{"turn":1,"step":1,"message":{"role":"user","content":[{"type":"tool-result","toolCallId":"call-1","content":[{"type":"text","text":"a"}]}],"source":{"kind":"tool","callId":"call-1"}}}"#,
            r#"{"turn":1,"step":1,"message":{"id":"m-3","role":"user","content":[{"type":"tool-result","toolCallId":"call-9","content":[{"type":"text","text":"not started"}],"isError":true}],"source":{"kind":"tool","callId":"call-9"}},"error":{"name":"ToolNotStartedError","code":"TOOL_NOT_STARTED"}}"#,
        ],
    ),
    (
        "todo/write",
        "The whole list of things to do; the last one holds. ACP clients see it as the plan.",
        &[r#"{"todos":[{"content":"measure","status":"in_progress"},{"content":"cut","status":"pending"}]}"#],
    ),
    (
        "request/header",
        "How the model is called from here on: model, settings, system prompt, tools. The last one holds (session/request).",
        &[
            r#"{"header":{"config":{"provider":"example","model":"example-1"}},"reason":"initial"}"#,
            r#"{"header":{"config":{"provider":"example","model":"example-1","reasoningEffort":"high","maxTokens":4096},"adapterDefaults":{"reasoningEffort":true,"maxTokens":true},"system":"Be brief.","tools":[{"name":"read","description":"Reads a file.","parameters":{"type":"object"}}]},"reason":"change","startsSeries":true}"#,
        ],
    ),
    (
        "request/context",
        "The model that the next requests go to and how much it takes; the last one holds, whole (session/request).",
        &[r#"{"provider":"example","model":"example-1","contextWindow":128000}"#],
    ),
    (
        "session/end-seed",
        "What the session was made with ends here; the daemon writes it behind a seed and a forked prefix.",
        &["{}"],
    ),
    (
        "session/title",
        "The session's title, for lists and replays; of those that are a text the last one by a person (source.kind user) holds, else the last one. It may stand anywhere and does not move updatedAt. A title of any kind is accepted; one that is no string or is empty changes nothing.",
        &[
            r#"{"title":"Lengths","messageSeqs":[],"source":{"kind":"user"}}"#,
            r#"{"title":"How long is a kilometre?","messageSeqs":[1],"source":{"kind":"fallback"}}"#,
        ],
    ),
    ("session/title-llm-request", "A model was asked for a title.", &[]),
    (
        "compaction/start",
        "A compaction begins: a part of the surface is to give way to a summary.",
        &[r#"{"compactionId":"c-1","turn":1}"#],
    ),
    (
        "compaction/summary",
        "The summary that takes the place of a range; the user/message that replaces it follows directly.",
        &[
            r#"{"compactionId":"c-1","summary":[{"type":"text","text":"A kilometre has 1000 metres."}],"shadowedRange":{"start":1,"end":3},"shadowedSeqs":[1,3],"shadowedTokenCount":266,"provider":"example","model":"example-1"}"#,
        ],
    ),
    (
        "compaction/prune",
        "A result is shortened; the tool/result that replaces it follows directly.",
        &[r#"{"shadowedRange":{"start":4,"end":4},"shadowedSeqs":[4],"shadowedTokenCount":900}"#],
    ),
    (
        "compaction/end",
        "A compaction is over, with error if it failed.",
        &[r#"{"compactionId":"c-1","turn":1}"#],
    ),
    ("agent-preset/selected", "A preset of the agent was chosen.", &[]),
    (
        "agent/inbox/spliced",
        "What waits to be told to the agent changed: from start on in target, messages were inserted or removed.",
        &[],
    ),
    ("approval/asked", "The user was asked to allow a call: id, toolName, callId, reason.", &[]),
    ("approval/decided", "The answer to approval/asked: its id, and the outcome.", &[]),
    ("approval/policy", "When the user is to be asked, from here on: policy, and who set it.", &[]),
    ("command/done", "A command is over: its commandId, kind, and text for the user.", &[]),
    ("command/run", "The user ran a command: commandId, name, args, source.", &[]),
    ("feedback/record", "The user's feedback.", &[]),
    ("goal/change", "The goal that the agent works for was set or changed: operation, goal.", &[]),
    ("hook/invoked", "A hook was run: turn, point, handlerId.", &[]),
    ("hook/result", "What a hook decided: turn, point, handlerId, decision, exitCode.", &[]),
    ("llm/retry", "A call of the model failed and will be tried again.", &[]),
    ("llm/retry-started", "The call is tried again.", &[]),
    (
        "model/selection",
        "The user chose the model for the next requests; what they then went to, request/context says.",
        &[r#"{"provider":"example","model":"example-1","reasoningEffort":"high"}"#],
    ),
    ("permission/preset", "The preset of what the agent may do, from here on.", &[]),
    ("plan/mode", "Whether the agent only plans, from here on: active.", &[]),
    ("sandbox/mode", "How far tools may reach, from here on: mode, and who set it.", &[]),
    ("schedule/change", "What is to be done later was changed.", &[]),
    (
        "session-log-deepseek/delivery-accepted",
        "A service took the log up to throughSeq, sent along with a request: what comes later is still to be sent.",
        &[r#"{"sessionId":"session-1","throughSeq":41}"#],
    ),
    (
        "subagent/descriptor",
        "What agent this session is, in a session that another one started: mode, provider, label.",
        &[],
    ),
    (
        "subagent/model-selection-policy",
        "The models that agents started by this session may be given, from its beginning on; without it they have no choice.",
        &[
            r#"{"allowedModels":[{"provider":"example","model":"example-1"},{"provider":"example","model":"example-2"}]}"#,
        ],
    ),
    ("team/member", "A member of a team of agents.", &[]),
    ("team/message/delivered", "A message of a team has reached its member.", &[]),
    ("team/message/queued", "A message of a team waits for its member.", &[]),
    ("team/task", "A task of a team.", &[]),
    ("tool-workflow/agent-end", "An agent of a workflow is over: runId, seq, outcome.", &[]),
    ("tool-workflow/agent-start", "A workflow starts an agent: runId, seq, label, phase, childId.", &[]),
    ("tool-workflow/run-end", "A workflow is over: runId, stopReason.", &[]),
    ("tool-workflow/run-start", "A workflow begins: runId, name.", &[]),
    (
        "tool/code-dispatch",
        "A tool that code called is over: subCallId, name, arguments, content, isError.",
        &[],
    ),
    (
        "tool/code-dispatch-start",
        "Code that the model runs calls a tool: rootCallId, parentCallId, subCallId, name, arguments.",
        &[],
    ),
    ("web/deepseek-search-llm-request", "A model was asked to search the web.", &[]),
];

/// What writers put into the data of a type, where FORMAT or public logs tell it.
pub(super) fn usual(defs: &mut Defs, name: &str, kind: Kind) -> Option<Value> {
    let schema = match kind {
        Kind::UserMessage => defs.described::<is::UserMessage>(),
        Kind::AssistantMessage => defs.described::<is::AssistantMessage>(),
        Kind::ToolResult => defs.described::<is::ToolResult>(),
        Kind::AssistantChunk => defs.described::<is::AssistantChunk>(),
        Kind::ToolCall => defs.described::<is::ToolCall>(),
        Kind::TurnStart => defs.described::<is::TurnStart>(),
        Kind::TurnEnd => defs.described::<is::TurnEnd>(),
        Kind::StepStart | Kind::StepEnd => defs.described::<is::Place>(),
        Kind::TodoWrite => defs.described::<is::TodoWrite>(),
        Kind::RequestHeader => defs.described::<kept::HeaderEvent>(),
        Kind::RequestContext => defs.described::<kept::RequestContext>(),
        Kind::SessionEndSeed => defs.described::<kept::EndSeed>(),
        Kind::SessionTitle => defs.described::<kept::SessionTitle>(),
        Kind::CompactionStart => defs.described::<kept::CompactionStart>(),
        Kind::CompactionSummary => defs.described::<kept::CompactionSummary>(),
        Kind::CompactionPrune => defs.described::<kept::Shadowed>(),
        Kind::CompactionEnd => defs.described::<kept::CompactionEnd>(),
        Kind::Known => match name {
            "model/selection" => defs.described::<kept::ModelSelection>(),
            "session-log-deepseek/delivery-accepted" => defs.described::<kept::DeliveryAccepted>(),
            "subagent/model-selection-policy" => defs.described::<kept::ModelSelectionPolicy>(),
            _ => return None,
        },
        Kind::SessionTitleLlmRequest | Kind::Other => return None,
    };
    Some(schema)
}
