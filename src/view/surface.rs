//! The surface: the ordered view of the events that produce messages (FORMAT 5 and 6).
//!
//! A node's *place* is the seq of the node that first stood there: an appended node stands at its own
//! seq, a replacement takes the place of the first node it shadows. Places therefore rise along the
//! list, so a node is found by its place, and a fork, a checkpoint and a replacement are cheap whatever
//! the length ([`Nodes`]).

use imbl::OrdMap;

use super::nodes::{Node, Nodes};
use super::reading::Reading;
use crate::json::{Fields, Json, MAX_SAFE_INTEGER, Type, equal_except};
use crate::log::{Draft, Event, Kind, Log, Offset, Seq, SeqRuns};

/// The surface after some prefix of a log.
#[derive(Clone, Debug, Default)]
pub struct Surface {
    /// All but assistant messages without content give a message.
    nodes: Nodes,
    /// The places of replacements: every other node stands at its own seq.
    moved: OrdMap<Seq, Seq>,
    generation: u64,
}

/// What a committed event does to the surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Log-only.
    None,
    /// A node at the tail; whether it gives a message.
    Append {
        /// It does.
        yields_message: bool,
    },
    /// A node in place of the nodes from one place to another, both included.
    Replace {
        /// Place of the first shadowed node.
        from: Seq,
        /// Place of the last shadowed node.
        to: Seq,
        /// The new node gives a message.
        yields_message: bool,
    },
}

/// Which rule of the surface an event breaks. The names are FORMAT 5's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum SurfaceError {
    #[error("only user/message, assistant/message and tool/result may carry surfaceOp; leave it out")]
    OpOnLogOnly,
    #[error("only user/message, assistant/message and tool/result may carry sourceEventSeqs; leave it out")]
    SourcesOnLogOnly,
    #[error("this type joins the surface; say how with surfaceOp: \"append\" or a replace object")]
    OpMissing,
    #[error("surfaceOp must be \"append\" or an object {{op: \"replace\", start, end}}")]
    OpInvalid,
    #[error("a replace needs exactly {{op: \"replace\", start, end}} with event seqs")]
    ReplaceInvalid,
    #[error("replace start {0} is not on the surface now; read session/surface")]
    StartNotFound(u64),
    #[error("replace end {0} is not on the surface now; read session/surface")]
    EndNotFound(u64),
    #[error("replace start {0} stands after its end {1} on the surface; swap them")]
    Inverted(u64, u64),
    #[error("sourceEventSeqs must be an array of event seqs")]
    SourcesNotArray,
    #[error("sourceEventSeqs may be empty only on an assistant/message; leave it out")]
    SourcesEmpty,
    #[error("sourceEventSeqs must hold non-negative safe integers only")]
    SourcesBadSeq,
    #[error("sourceEventSeqs names {0} twice")]
    SourcesDuplicate(u64),
    #[error("sourceEventSeqs names {0}, which is not an earlier event")]
    SourcesNotEarlier(u64),
    #[error("a replacement must cite every event it shadows in sourceEventSeqs; {0} is missing")]
    SourcesMissingShadowed(u64),
    #[error("a tool/result may replace exactly one tool/result")]
    RewriteNotSingle,
    #[error("a tool/result may replace only a tool/result; {0} is none")]
    RewriteTarget(u64),
    #[error("a tool/result that replaces may change only message.content[0].content")]
    RewriteChanged,
}

impl SurfaceError {
    /// The rule's name in FORMAT.
    pub fn rule(&self) -> &'static str {
        match self {
            Self::OpOnLogOnly => "SURFACE_OP_ON_LOG_ONLY",
            Self::SourcesOnLogOnly => "SOURCES_ON_LOG_ONLY",
            Self::OpMissing => "SURFACE_OP_MISSING",
            Self::OpInvalid => "SURFACE_OP_INVALID",
            Self::ReplaceInvalid => "SURFACE_REPLACE_INVALID",
            Self::StartNotFound(_) => "REPLACE_START_NOT_FOUND",
            Self::EndNotFound(_) => "REPLACE_END_NOT_FOUND",
            Self::Inverted(..) => "REPLACE_INVERTED",
            Self::SourcesNotArray => "SOURCES_NOT_ARRAY",
            Self::SourcesEmpty => "SOURCES_EMPTY",
            Self::SourcesBadSeq => "SOURCES_BAD_SEQ",
            Self::SourcesDuplicate(_) => "SOURCES_DUPLICATE",
            Self::SourcesNotEarlier(_) => "SOURCES_NOT_EARLIER",
            Self::SourcesMissingShadowed(_) => "SOURCES_MISSING_SHADOWED",
            Self::RewriteNotSingle => "TOOL_REWRITE_NOT_SINGLE",
            Self::RewriteTarget(_) => "TOOL_REWRITE_TARGET",
            Self::RewriteChanged => "TOOL_REWRITE_CHANGED",
        }
    }
}

/// A surface marker.
enum Marker {
    Append,
    Replace { start: u64, end: u64 },
}

impl Marker {
    fn read(op: Json<'_>) -> Result<Self, SurfaceError> {
        match op.kind() {
            Type::String if op.is_str("append") => Ok(Self::Append),
            Type::Object => {
                let Fields { found: [name, start, end], others: false } =
                    op.all_fields(&["op", "start", "end"])
                else {
                    return Err(SurfaceError::ReplaceInvalid);
                };
                let is_replace = name.is_some_and(|name| name.is_str("replace"));
                let place = |seq: Option<Json<'_>>| seq.and_then(Json::as_safe_uint);
                let (start, end) = (place(start), place(end));
                match (is_replace, start, end) {
                    (true, Some(start), Some(end)) => Ok(Self::Replace { start, end }),
                    _ => Err(SurfaceError::ReplaceInvalid),
                }
            }
            _ => Err(SurfaceError::OpInvalid),
        }
    }
}

/// Checks what can be told of an event's marker without the surface that it changes (FORMAT 5).
pub fn check_marker(draft: &Draft<'_>) -> Result<(), SurfaceError> {
    match (draft.kind.is_surface(), draft.surface_op, draft.sources) {
        (true, op, _) => Marker::read(op.ok_or(SurfaceError::OpMissing)?).map(|_| ()),
        (false, Some(_), _) => Err(SurfaceError::OpOnLogOnly),
        (false, None, Some(_)) => Err(SurfaceError::SourcesOnLogOnly),
        (false, None, None) => Ok(()),
    }
}

impl Surface {
    /// Checks an event that would come next in `log` and says what it does (FORMAT 5, in that order).
    pub fn plan(&self, draft: &Draft<'_>, reading: &Reading<'_>, log: &Log) -> Result<Effect, SurfaceError> {
        if !draft.kind.is_surface() {
            return match (draft.surface_op, draft.sources) {
                (Some(_), _) => Err(SurfaceError::OpOnLogOnly),
                (None, Some(_)) => Err(SurfaceError::SourcesOnLogOnly),
                (None, None) => Ok(Effect::None),
            };
        }
        let marker = Marker::read(draft.surface_op.ok_or(SurfaceError::OpMissing)?)?;
        let yields_message = reading.yields_message;
        match marker {
            Marker::Append => {
                if draft.sources.is_some() {
                    check_sources(draft, log.len(), std::iter::empty())?;
                }
                Ok(Effect::Append { yields_message })
            }
            Marker::Replace { start, end } => {
                let (from, to) = self.check_replacement(draft, start, end, log)?;
                Ok(Effect::Replace { from, to, yields_message })
            }
        }
    }

    /// The places of what a replacement takes the place of.
    #[inline(never)]
    fn check_replacement(
        &self,
        draft: &Draft<'_>,
        start: u64,
        end: u64,
        log: &Log,
    ) -> Result<(Seq, Seq), SurfaceError> {
        let (from, to) = self.locate(start, end)?;
        check_sources(draft, log.len(), self.nodes.range(from, to).map(|node| node.seq))?;
        if draft.kind == Kind::ToolResult {
            self.check_rewrite(draft, log, from, to)?;
        }
        Ok((from, to))
    }

    /// What a committed event does: [`Self::plan`] without the checks that it has passed before.
    pub fn effect_of(&self, event: Event<'_>, reading: &Reading<'_>) -> Effect {
        if !event.kind().is_surface() {
            return Effect::None;
        }
        let yields_message = reading.yields_message;
        match event.surface_op().map(Marker::read) {
            Some(Ok(Marker::Replace { start, end })) => match self.locate(start, end) {
                Ok((from, to)) => Effect::Replace { from, to, yields_message },
                Err(_) => Effect::Append { yields_message },
            },
            _ => Effect::Append { yields_message },
        }
    }

    fn locate(&self, start: u64, end: u64) -> Result<(Seq, Seq), SurfaceError> {
        let from = self.place_of(start).ok_or(SurfaceError::StartNotFound(start))?;
        let to = self.place_of(end).ok_or(SurfaceError::EndNotFound(end))?;
        if from > to {
            return Err(SurfaceError::Inverted(start, end));
        }
        Ok((from, to))
    }

    fn place_of(&self, seq: u64) -> Option<Seq> {
        let seq = Seq::new(seq)?;
        let place = self.moved.get(&seq).copied().unwrap_or(seq);
        (self.nodes.get(place)?.seq == seq).then_some(place)
    }

    fn check_rewrite(&self, draft: &Draft<'_>, log: &Log, from: Seq, to: Seq) -> Result<(), SurfaceError> {
        if from != to {
            return Err(SurfaceError::RewriteNotSingle);
        }
        let target = self.nodes.get(from).and_then(|node| log.get(node.seq));
        let target = target.ok_or(SurfaceError::RewriteNotSingle)?;
        if target.kind() != Kind::ToolResult {
            return Err(SurfaceError::RewriteTarget(target.seq().get()));
        }
        if equal_except(target.data(), draft.data, &["message", "content", "0", "content"]) {
            Ok(())
        } else {
            Err(SurfaceError::RewriteChanged)
        }
    }

    /// Follows a committed event.
    pub fn apply(&mut self, seq: Seq, effect: Effect) {
        match effect {
            Effect::None => {}
            Effect::Append { yields_message } => self.nodes.push(Node { place: seq, seq, yields_message }),
            Effect::Replace { from, to, yields_message } => {
                for gone in self.nodes.range(from, to).filter(|gone| gone.place != gone.seq) {
                    self.moved.remove(&gone.seq);
                }
                self.moved.insert(seq, from);
                self.nodes.replace(from, to, Node { place: from, seq, yields_message });
                self.generation += 1;
            }
        }
    }

    /// Replacements committed so far.
    pub fn replace_generation(&self) -> u64 {
        self.generation
    }

    /// Nodes on the surface.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether no event is on the surface.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 0
    }

    /// The seqs of the nodes, in order.
    pub fn nodes(&self) -> impl Iterator<Item = Seq> + '_ {
        self.nodes.iter().map(|node| node.seq)
    }

    /// Derived messages.
    pub fn message_count(&self) -> usize {
        self.nodes.messages()
    }

    /// The seq of the node that stands at a place.
    pub(super) fn seq_at(&self, place: Seq) -> Option<Seq> {
        self.nodes.get(place).map(|node| node.seq)
    }

    /// The places and seqs of the nodes that give the derived messages, from the one at `index` on.
    pub(super) fn messages_from(&self, index: usize) -> impl Iterator<Item = (Seq, Seq)> + '_ {
        self.nodes.speaking(index).map(|node| (node.place, node.seq))
    }

    /// The seqs of the events that give the derived messages, from the one at `index` on.
    pub fn message_seqs(&self, index: usize) -> impl Iterator<Item = Seq> + '_ {
        self.nodes.speaking(index).map(|node| node.seq)
    }
}

/// The provenance rules of FORMAT 5; every `shadowed` event must be cited.
#[inline(never)]
fn check_sources(
    draft: &Draft<'_>,
    next: Offset,
    mut shadowed: impl Iterator<Item = Seq>,
) -> Result<(), SurfaceError> {
    let Some(sources) = draft.sources else {
        return shadowed.next().map_or(Ok(()), |seq| Err(SurfaceError::SourcesMissingShadowed(seq.get())));
    };
    if draft.packed
        && let Some(runs) = SeqRuns::read(sources, next.next())
    {
        return match shadowed.find(|seq| !runs.has(*seq)) {
            Some(seq) => Err(SurfaceError::SourcesMissingShadowed(seq.get())),
            None => Ok(()),
        };
    }
    if sources.kind() != Type::Array {
        return Err(SurfaceError::SourcesNotArray);
    }
    let cited: Option<Vec<u64>> = sources.elements().map(Json::as_safe_uint).collect();
    let cited = cited.ok_or(SurfaceError::SourcesBadSeq)?;
    if cited.is_empty() && draft.kind != Kind::AssistantMessage {
        return Err(SurfaceError::SourcesEmpty);
    }
    let mut sorted = cited;
    sorted.sort_unstable();
    if let Some([twice, _]) = sorted.windows(2).find(|pair| matches!(pair, [a, b] if a == b)) {
        return Err(SurfaceError::SourcesDuplicate(*twice));
    }
    if let Some(&late) = sorted.last().filter(|&&seq| seq >= next.get().min(MAX_SAFE_INTEGER)) {
        return Err(SurfaceError::SourcesNotEarlier(late));
    }
    match shadowed.find(|seq| sorted.binary_search(&seq.get()).is_err()) {
        Some(seq) => Err(SurfaceError::SourcesMissingShadowed(seq.get())),
        None => Ok(()),
    }
}
