//! The event vocabulary of format version 0.

use crate::json::JsonStr;

/// What an event is, as far as this store reads it.
///
/// Types that the store only keeps are [`Kind::Known`]; everything else is [`Kind::Other`], which
/// loads only where its log marks it `ignorable` or a client has declared it (PROTOCOL 2 and 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum Kind {
    UserMessage,
    AssistantMessage,
    ToolResult,
    AssistantChunk,
    ToolCall,
    TurnStart,
    TurnEnd,
    StepStart,
    StepEnd,
    TodoWrite,
    RequestHeader,
    RequestContext,
    SessionEndSeed,
    SessionTitle,
    SessionTitleLlmRequest,
    CompactionStart,
    CompactionSummary,
    CompactionPrune,
    CompactionEnd,
    /// In the load vocabulary; no projection reads it.
    Known,
    /// Outside the vocabulary.
    Other,
}

/// The one list of the types that something here reads: the match that finds their kinds, and their names.
macro_rules! read_types {
    ($($name:literal => $kind:ident,)*) => {
        /// The types that something here reads.
        const READ: &[&str] = &[$($name),*];

        impl Kind {
            /// The kind of a type.
            pub fn of(name: &str) -> Self {
                match name {
                    $($name => Self::$kind,)*
                    _ if KEPT.binary_search(&name).is_ok() => Self::Known,
                    _ => Self::Other,
                }
            }
        }
    };
}

read_types! {
    "user/message" => UserMessage,
    "assistant/message" => AssistantMessage,
    "tool/result" => ToolResult,
    "assistant/chunk" => AssistantChunk,
    "tool/call" => ToolCall,
    "turn/start" => TurnStart,
    "turn/end" => TurnEnd,
    "step/start" => StepStart,
    "step/end" => StepEnd,
    "todo/write" => TodoWrite,
    "request/header" => RequestHeader,
    "request/context" => RequestContext,
    "session/end-seed" => SessionEndSeed,
    "session/title" => SessionTitle,
    "session/title-llm-request" => SessionTitleLlmRequest,
    "compaction/start" => CompactionStart,
    "compaction/summary" => CompactionSummary,
    "compaction/prune" => CompactionPrune,
    "compaction/end" => CompactionEnd,
}

impl Kind {
    /// The names of the load vocabulary (FORMAT 3), in no order.
    pub fn known_names() -> impl Iterator<Item = &'static str> {
        READ.iter().chain(&KEPT).copied()
    }

    /// The kind of a type as it stands in JSON text, whatever its escapes.
    pub fn of_text(text: JsonStr<'_>) -> Self {
        text.decode().map_or(Self::Other, |name| Self::of(&name))
    }

    /// Whether events of this kind join the surface (FORMAT 2).
    pub fn is_surface(self) -> bool {
        matches!(self, Self::UserMessage | Self::AssistantMessage | Self::ToolResult)
    }
}

/// The load vocabulary (FORMAT 3) beside the types that a projection reads; sorted.
const KEPT: [&str; 32] = [
    "agent-preset/selected",
    "agent/inbox/spliced",
    "approval/asked",
    "approval/decided",
    "approval/policy",
    "command/done",
    "command/run",
    "feedback/record",
    "goal/change",
    "hook/invoked",
    "hook/result",
    "llm/retry",
    "llm/retry-started",
    "model/selection",
    "permission/preset",
    "plan/mode",
    "sandbox/mode",
    "schedule/change",
    "session-log-deepseek/delivery-accepted",
    "subagent/descriptor",
    "subagent/model-selection-policy",
    "team/member",
    "team/message/delivered",
    "team/message/queued",
    "team/task",
    "tool-workflow/agent-end",
    "tool-workflow/agent-start",
    "tool-workflow/run-end",
    "tool-workflow/run-start",
    "tool/code-dispatch",
    "tool/code-dispatch-start",
    "web/deepseek-search-llm-request",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vocabulary_is_sorted_and_has_51_types() {
        assert!(KEPT.is_sorted());
        assert_eq!(Kind::known_names().collect::<std::collections::BTreeSet<_>>().len(), 51);
        assert!(Kind::known_names().all(|name| Kind::of(name) != Kind::Other));
        assert_eq!(Kind::of("team/message/queued"), Kind::Known);
        assert_eq!(Kind::of("user/messages"), Kind::Other);
    }
}
