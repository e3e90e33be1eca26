//! What is known of each method: the rows of the method table as a list.

use serde_json::Value;

use super::initialize::{InitializeResult, StatusResult};
use super::methods::methods;
use super::names::names;
use super::params::*;
use super::results::*;
use super::schema::Defs;

/// What a request of a method waits for, and what waits for it (PROTOCOL 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// The sessions that its params name by `sessionId` and `childSessionId`.
    Sessions,
    /// These and the list of all sessions.
    List,
    /// Everything: the first answer fixes the dialect.
    All,
    /// Nothing: it overtakes whatever waits, and fixes no dialect.
    Nothing,
}

/// The form of a method in the acp dialect (PROTOCOL 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Acp {
    /// ACP has no such method: it is the native one.
    None,
    /// ACP's own: the same in both dialects.
    Same,
    /// These params, which ACP has too, stand at the root and all others under `_meta.sessiond`; and so the result.
    Split(&'static [&'static str], AcpResult),
}

/// The result of a method in the acp dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcpResult {
    /// These members stand at the root, and the native result under `_meta.sessiond`.
    Root(&'static [&'static str]),
    /// Rows of which each is split; the list's own members are ACP's.
    Rows,
    /// There is nothing to say.
    Nothing,
}

/// A method, as a row of the table has it.
#[derive(Clone, Copy, Debug)]
pub struct Method {
    /// Its name on the wire.
    pub name: &'static str,
    /// What it does.
    doc: &'static str,
    /// What its requests wait for.
    pub scope: Scope,
    /// Its form in the acp dialect.
    pub acp: Acp,
    /// The names of its params, in their order.
    pub(crate) params: fn() -> &'static [&'static str],
    /// References to the schemas of its params and of its result.
    pub(super) schemas: fn(&mut Defs) -> (Value, Value),
}

macro_rules! list {
    ($($(#[doc = $doc:literal])+ fn $method:ident($params:ty) -> $result:ty
        { name: $name:literal, scope: $scope:ident, acp: $($acp:tt)+ })+) => {
        /// Every method, in the order of PROTOCOL 3.
        pub const METHODS: &[Method] = {
            use AcpResult::*;
            &[$(Method {
                name: $name,
                doc: concat!($($doc),+),
                scope: Scope::$scope,
                acp: Acp::$($acp)+,
                params: names::<$params>,
                schemas: |defs| (defs.params::<$params>(), defs.result::<$result>()),
            }),+]
        };
    };
}
methods!(list);

impl Method {
    /// What it does, on one line.
    pub fn doc(&self) -> &'static str {
        self.doc.trim_start()
    }

    /// The method of that name: every one but ACP's own answers with an underscore before its name, too.
    pub fn named(name: &str) -> Option<&'static Self> {
        let plain = |method: &&Self| method.acp != Acp::Same && name.strip_prefix('_') == Some(method.name);
        METHODS.iter().find(|method| method.name == name || plain(method))
    }
}
