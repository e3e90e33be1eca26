//! The method table: every method once. What is known of a method beside its types and its body comes from here.
//!
//! `methods!(rows)` gives all rows to the macro `rows!`, which makes of them what its room needs: in `method` the list
//! `METHODS`, in `server` the registrations at jsonrpsee, in `client` the typed calls. A row says, in this order: what
//! the method does (for the schema, the client and `docs/protocol.md`), its name in Rust, its params and its result, its
//! name on the wire, what it waits for (`Scope`), and its form in the acp dialect (`Acp`).

macro_rules! methods {
    ($rows:ident) => {
        $rows! {
            /// ACP's handshake; fixes the dialect of the connection. Optional: first or never.
            fn initialize(InitializeParams) -> InitializeResult { name: "initialize", scope: All, acp: Same }

            /// Makes a session, empty or from a seed. It is live with the answer; its first event takes its id in the store.
            fn new_session(NewParams) -> Opened {
                name: "session/new", scope: Sessions, acp: Split(&["cwd"], Root(&["sessionId"]))
            }

            /// Appends one event. The answer says that it is committed, visible and with the operating system.
            fn append(AppendParams) -> Appended { name: "session/append", scope: Sessions, acp: None }

            /// Appends events: all of them or none.
            fn append_batch(AppendBatchParams) -> AppendedBatch {
                name: "session/append_batch", scope: Sessions, acp: None
            }

            /// Closes an open turn with the events that crash repair would write.
            fn interrupt(InterruptParams) -> Interrupted { name: "session/interrupt", scope: Sessions, acp: None }

            /// A stable prefix of a session as the seed and meta of a `session/new`.
            fn snapshot(SnapshotParams) -> SnapshotResult { name: "session/snapshot", scope: Sessions, acp: None }

            /// Makes a child that shares a prefix of a live session, in another `cwd` if given. `boundary` cuts after that
            /// event, `messageId` at the end of that message's turn; give one of them at most.
            fn fork(ForkParams) -> Forked {
                name: "session/fork", scope: Sessions, acp: Split(&["sessionId", "cwd"], Root(&["sessionId"]))
            }

            /// A page of a session's events.
            fn events(EventsParams) -> EventsResult { name: "session/events", scope: Sessions, acp: None }

            /// A page of the messages that a session's surface gives, or of what is new since an earlier one; with the seq
            /// of each one's event if asked.
            fn messages(MessagesParams) -> MessagesResult { name: "session/messages", scope: Sessions, acp: None }

            /// The nodes of a session's surface: the seqs of their events.
            fn surface(ThroughParams) -> SurfaceResult { name: "session/surface", scope: Sessions, acp: None }

            /// The model request as the log reconstructs it; with `pairing: "repair"` as model providers take it, and what
            /// was changed for that.
            fn model_request(RequestParams) -> RequestResult { name: "session/request", scope: Sessions, acp: None }

            /// How a live session stands: header, lengths, open turn and step, durable seq, warnings.
            fn info(SessionParams) -> InfoResult { name: "session/info", scope: Sessions, acp: None }

            /// A page of the live and stored sessions, newest last event first, their owners in other processes (`lockedBy`)
            /// named. Its pages are of the moment of the first one, and a `cursor` is good for the same filters only;
            /// `status` is what a glance shows: a load reads all.
            fn list(ListParams) -> ListResult { name: "session/list", scope: List, acp: Split(&["cwd", "cursor"], Rows) }

            /// Makes a stored session live, after streaming its history if that is wanted (`replay: "updates"`): as
            /// notifications before the answer.
            fn load(LoadParams) -> Opened {
                name: "session/load", scope: Sessions, acp: Split(&["sessionId", "cwd"], Root(&[]))
            }

            /// Makes a stored session live and streams nothing.
            fn resume(ResumeParams) -> Opened {
                name: "session/resume", scope: Sessions, acp: Split(&["sessionId", "cwd"], Root(&[]))
            }

            /// A stored or live session as it lies there, damaged or not, if its header reads and its id is stored once;
            /// changes nothing.
            fn inspect(InspectParams) -> InspectResult { name: "session/inspect", scope: Sessions, acp: None }

            /// Stores a live session anew whose file another program changed, moved or removed: under its own id if that is
            /// free, else under `childSessionId` or a minted one.
            fn rescue(RescueParams) -> Opened { name: "session/rescue", scope: Sessions, acp: None }

            /// How the daemon stands: at any time, before `initialize` and past all that waits.
            fn status(StatusParams) -> StatusResult { name: "sessiond/status", scope: Nothing, acp: None }

            /// Answers once everything committed before it is on stable storage.
            fn flush(SessionParams) -> FlushResult { name: "session/flush", scope: Sessions, acp: None }

            /// Flushes a session and ends its life here; an unknown one too.
            fn close(EndParams) -> EmptyResult {
                name: "session/close", scope: Sessions, acp: Split(&["sessionId"], Nothing)
            }

            /// Closes a session and removes it from storage; an unknown one too.
            fn delete(EndParams) -> EmptyResult {
                name: "session/delete", scope: List, acp: Split(&["sessionId"], Nothing)
            }
        }
    };
}
pub(crate) use methods;
