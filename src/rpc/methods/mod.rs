//! What the methods do, one file per concern, and the table that hands calls to them.

mod append;
mod end;
mod initialize;
mod list;
mod open;
mod read;

use jsonrpsee::Extensions;
use jsonrpsee::core::RpcResult;

use super::api::SessionApiServer;
use super::params::*;
use super::raw::RawJson;
use super::results::*;
use super::service::Slot;

pub(super) use append::append_direct;
pub(super) use initialize::METHODS;

/// Hands each method of the table to the service.
macro_rules! hand_over {
    ($($method:ident($params:ty) -> $result:ty;)*) => {
        impl SessionApiServer for std::sync::Arc<Slot> {
            $(fn $method(&self, _: &Extensions, params: $params) -> RpcResult<$result> {
                self.run(|service| service.$method(params))
            })*
        }
    };
}

hand_over! {
    initialize(InitializeParams) -> RawJson;
    new_session(NewParams) -> Face<Opened>;
    append(AppendParams) -> Appended;
    append_batch(AppendBatchParams) -> AppendedBatch;
    interrupt(InterruptParams) -> Interrupted;
    snapshot(SnapshotParams) -> SnapshotResult;
    fork(ForkParams) -> Face<Forked>;
    events(EventsParams) -> EventsResult;
    messages(MessagesParams) -> MessagesResult;
    surface(ThroughParams) -> SurfaceResult;
    request(ThroughParams) -> RequestResult;
    info(SessionParams) -> InfoResult;
    list(ListParams) -> Face<ListResult>;
    load(LoadParams) -> Face<Opened>;
    resume(ResumeParams) -> Face<Opened>;
    inspect(InspectParams) -> InspectResult;
    flush(SessionParams) -> FlushResult;
    close(EndParams) -> Face<EmptyResult>;
    delete(EndParams) -> Face<EmptyResult>;
}
