//! The method table: every method once, with its params and its result.
//!
//! A method takes one params object. The envelope hands it over as the only element of a positional
//! list, so that the types of `params` are the single definition of names, strictness and schema.

use jsonrpsee::core::RpcResult;
use jsonrpsee::proc_macros::rpc;

use super::initialize::{InitializeResult, StatusResult};
use super::params::*;
use super::results::*;

/// The methods of the daemon. (`request` and `notification` are names of the client's own trait.)
#[cfg_attr(feature = "client", rpc(server, client))]
#[cfg_attr(not(feature = "client"), rpc(server))]
pub trait SessionApi {
    /// ACP's handshake; fixes the dialect.
    #[method(name = "initialize", with_extensions)]
    fn initialize(&self, params: InitializeParams) -> RpcResult<InitializeResult>;

    /// Makes a session.
    #[method(name = "session/new", aliases = ["_session/new"], with_extensions)]
    fn new_session(&self, params: NewParams) -> RpcResult<Face<Opened>>;

    /// Appends one event.
    #[method(name = "session/append", aliases = ["_session/append"], with_extensions)]
    fn append(&self, params: AppendParams) -> RpcResult<Appended>;

    /// Appends events, all or none.
    #[method(name = "session/append_batch", aliases = ["_session/append_batch"], with_extensions)]
    fn append_batch(&self, params: AppendBatchParams) -> RpcResult<AppendedBatch>;

    /// Closes an open turn.
    #[method(name = "session/interrupt", aliases = ["_session/interrupt"], with_extensions)]
    fn interrupt(&self, params: InterruptParams) -> RpcResult<Interrupted>;

    /// A stable prefix as a seed.
    #[method(name = "session/snapshot", aliases = ["_session/snapshot"], with_extensions)]
    fn snapshot(&self, params: SnapshotParams) -> RpcResult<SnapshotResult>;

    /// A child from a stable prefix.
    #[method(name = "session/fork", aliases = ["_session/fork"], with_extensions)]
    fn fork(&self, params: ForkParams) -> RpcResult<Face<Forked>>;

    /// A page of events.
    #[method(name = "session/events", aliases = ["_session/events"], with_extensions)]
    fn events(&self, params: EventsParams) -> RpcResult<EventsResult>;

    /// A page of derived messages.
    #[method(name = "session/messages", aliases = ["_session/messages"], with_extensions)]
    fn messages(&self, params: MessagesParams) -> RpcResult<MessagesResult>;

    /// The surface's nodes.
    #[method(name = "session/surface", aliases = ["_session/surface"], with_extensions)]
    fn surface(&self, params: ThroughParams) -> RpcResult<SurfaceResult>;

    /// The model request as the log reconstructs it.
    #[method(name = "session/request", aliases = ["_session/request"], with_extensions)]
    fn model_request(&self, params: RequestParams) -> RpcResult<RequestResult>;

    /// A live session's state.
    #[method(name = "session/info", aliases = ["_session/info"], with_extensions)]
    fn info(&self, params: SessionParams) -> RpcResult<InfoResult>;

    /// A page of sessions.
    #[method(name = "session/list", aliases = ["_session/list"], with_extensions)]
    fn list(&self, params: ListParams) -> RpcResult<Face<ListResult>>;

    /// Opens a stored session and streams its history first.
    #[method(name = "session/load", aliases = ["_session/load"], with_extensions)]
    fn load(&self, params: LoadParams) -> RpcResult<Face<Opened>>;

    /// Opens a stored session.
    #[method(name = "session/resume", aliases = ["_session/resume"], with_extensions)]
    fn resume(&self, params: ResumeParams) -> RpcResult<Face<Opened>>;

    /// A session as it lies in storage.
    #[method(name = "session/inspect", aliases = ["_session/inspect"], with_extensions)]
    fn inspect(&self, params: InspectParams) -> RpcResult<InspectResult>;

    /// How the daemon stands.
    #[method(name = "sessiond/status", aliases = ["_sessiond/status"], with_extensions)]
    fn status(&self, params: StatusParams) -> RpcResult<StatusResult>;

    /// Waits until all committed events are durable.
    #[method(name = "session/flush", aliases = ["_session/flush"], with_extensions)]
    fn flush(&self, params: SessionParams) -> RpcResult<FlushResult>;

    /// Stores a live session anew whose file another program changed or removed.
    #[method(name = "session/rescue", aliases = ["_session/rescue"], with_extensions)]
    fn rescue(&self, params: RescueParams) -> RpcResult<Opened>;

    /// Ends a session's life here.
    #[method(name = "session/close", aliases = ["_session/close"], with_extensions)]
    fn close(&self, params: EndParams) -> RpcResult<Face<EmptyResult>>;

    /// Removes a session.
    #[method(name = "session/delete", aliases = ["_session/delete"], with_extensions)]
    fn delete(&self, params: EndParams) -> RpcResult<Face<EmptyResult>>;
}
