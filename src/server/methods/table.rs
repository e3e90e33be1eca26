//! Hands each method of the table to the service.

use jsonrpsee::Extensions;
use jsonrpsee::core::RpcResult;

use crate::protocol::SessionApiServer;
use crate::protocol::initialize::{InitializeResult, StatusResult};
use crate::protocol::params::*;
use crate::protocol::results::*;
use crate::server::service::Slot;

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
    initialize(InitializeParams) -> InitializeResult;
    new_session(NewParams) -> Face<Opened>;
    append(AppendParams) -> Appended;
    append_batch(AppendBatchParams) -> AppendedBatch;
    interrupt(InterruptParams) -> Interrupted;
    snapshot(SnapshotParams) -> SnapshotResult;
    fork(ForkParams) -> Face<Forked>;
    events(EventsParams) -> EventsResult;
    messages(MessagesParams) -> MessagesResult;
    surface(ThroughParams) -> SurfaceResult;
    model_request(RequestParams) -> RequestResult;
    info(SessionParams) -> InfoResult;
    list(ListParams) -> Face<ListResult>;
    load(LoadParams) -> Face<Opened>;
    resume(ResumeParams) -> Face<Opened>;
    inspect(InspectParams) -> InspectResult;
    status(StatusParams) -> StatusResult;
    flush(SessionParams) -> FlushResult;
    rescue(RescueParams) -> Opened;
    close(EndParams) -> Face<EmptyResult>;
    delete(EndParams) -> Face<EmptyResult>;
}
