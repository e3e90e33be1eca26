//! Hands each method of the table to the service: jsonrpsee reads its params, calls its body and writes its response.

use std::sync::Arc;

use jsonrpsee::RpcModule;
use jsonrpsee::core::server::Methods;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::protocol::initialize::{InitializeResult, StatusResult};
use crate::protocol::methods;
use crate::protocol::params::*;
use crate::protocol::results::*;
use crate::server::call::Answer;
use crate::server::service::{Service, ServiceCell};

macro_rules! register {
    ($($(#[doc = $doc:literal])+ fn $method:ident($params:ty) -> $result:ty
        { name: $name:literal, $($more:tt)+ })+) => {
        /// Every method, called on the service that stands in the slot.
        pub(in crate::server) fn method_table(slot: Arc<ServiceCell>) -> Methods {
            let mut table = RpcModule::new(slot);
            $(register::<$params, $result, _>(&mut table, $name, Service::$method);)+
            table.into()
        }
    };
}
methods!(register);

/// Registers one method. Its body gives the result of the table, or that in one of the two dialects (`Face`).
fn register<P, R, A>(
    table: &mut RpcModule<Arc<ServiceCell>>,
    name: &'static str,
    body: fn(&mut Service, P) -> Answer<A>,
) where
    P: DeserializeOwned + 'static,
    A: From<R> + Serialize + Clone + 'static,
{
    let registered = table.register_method(name, move |params, slot, _| {
        let params: P = params.parse()?;
        slot.run(|service| body(service, params))
    });
    debug_assert!(registered.is_ok(), "{name} stands twice in the table");
}
