//! JSON that passes through the method table as the text it came in.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use crate::json::{Checks, Json};

/// Any JSON value, kept as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RawJson(Box<RawValue>);

impl RawJson {
    /// Text that this program has encoded or verified. Text that is not JSON becomes `null`.
    pub fn from_text(text: String) -> Self {
        debug_assert!(Json::parse(&text).is_ok());
        Self(RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// The JSON of a value.
    ///
    /// # Errors
    /// A map whose keys are no texts, or what the value's own `Serialize` refuses.
    pub fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        to_raw_value(value).map(Self)
    }

    /// The value as a type of the reader's.
    ///
    /// # Errors
    /// What of the text does not fit the type.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }

    /// The text, which may hold white space between tokens.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// The value with what the scanner says of it. A text that the line's own scan has passed parses.
    pub fn verified(&self) -> (Json<'_>, Checks) {
        Json::parse(self.0.get()).unwrap_or((Json::NULL, Checks::default()))
    }
}

/// `null`.
impl Default for RawJson {
    fn default() -> Self {
        Self(RawValue::NULL.to_owned())
    }
}

impl From<serde_json::Value> for RawJson {
    fn from(value: serde_json::Value) -> Self {
        Self::from_text(value.to_string())
    }
}

impl JsonSchema for RawJson {
    fn schema_name() -> Cow<'static, str> {
        "Any".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!(true)
    }

    fn inline_schema() -> bool {
        true
    }
}

/// Reads a member for which `null` is a value and not absence (PROTOCOL 1).
pub(crate) fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RawJson>, D::Error> {
    RawJson::deserialize(deserializer).map(Some)
}
