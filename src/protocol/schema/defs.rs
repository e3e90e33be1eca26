//! The shared definitions: what the types say, put as the protocol means it.

use std::collections::{BTreeMap, BTreeSet};

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::{DRAFT, Document};
use crate::json::MAX_SAFE_INTEGER;

/// Types in which null is absence, beside params: what `initialize` reads of the client.
const NULL_IS_ABSENCE: [&str; 4] = ["ClientCapabilities", "ClientExtension", "ClientSession", "ClientWishes"];

const PREFIX: &str = "#/$defs/";

/// Named schemas, and the generators that make them: one for what is read, one for what is written.
pub(in crate::protocol) struct Defs {
    read: SchemaGenerator,
    written: SchemaGenerator,
    /// Types whose optional members may be null.
    nullable: BTreeSet<String>,
    all: BTreeMap<String, Value>,
}

impl Defs {
    pub(super) fn new() -> Self {
        let settings = SchemaSettings::draft2020_12;
        Self {
            read: settings().for_deserialize().into_generator(),
            written: settings().for_serialize().into_generator(),
            nullable: NULL_IS_ABSENCE.map(str::to_owned).into(),
            all: BTreeMap::new(),
        }
    }

    /// A reference to a method's params.
    pub(in crate::protocol) fn params<T: JsonSchema>(&mut self) -> Value {
        self.nullable.insert(T::schema_name().into_owned());
        self.read.subschema_for::<T>().to_value()
    }

    /// A reference to what the daemon writes.
    pub(in crate::protocol) fn result<T: JsonSchema>(&mut self) -> Value {
        self.written.subschema_for::<T>().to_value()
    }

    /// A reference to what is described and neither read nor written as such.
    pub(super) fn described<T: JsonSchema>(&mut self) -> Value {
        self.read.subschema_for::<T>().to_value()
    }

    /// Takes what the generators have made. A type that is both read and written is one definition: as
    /// it is read, which asks less.
    pub(super) fn finish(&mut self) {
        let mut all: Map<String, Value> = self.written.take_definitions(true);
        all.extend(self.read.take_definitions(true));
        for (name, value) in all {
            let Ok(mut schema) = Schema::try_from(value) else { continue };
            RecursiveTransform(as_safe_integer).transform(&mut schema);
            RecursiveTransform(on_one_line).transform(&mut schema);
            if !self.nullable.contains(&name) {
                drop_nulls(&mut schema);
            }
            self.all.insert(name, schema.to_value());
        }
    }

    /// Every definition.
    pub(super) fn all(&self) -> &BTreeMap<String, Value> {
        &self.all
    }

    /// The definition that a reference names.
    pub(super) fn get(&self, reference: &Value) -> Option<&Map<String, Value>> {
        let name = reference.get("$ref")?.as_str()?.strip_prefix(PREFIX)?;
        self.all.get(name)?.as_object()
    }

    /// A definition as a document of its own.
    pub(super) fn root(&self, name: &str) -> Document {
        let mut document = self.all.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        document.insert("title".to_owned(), json!(name));
        document
    }

    /// A document with the definitions that it needs.
    pub(super) fn complete(&self, mut document: Document) -> Document {
        let mut needed = BTreeMap::new();
        self.collect(&Value::Object(document.clone()), &mut needed);
        document.insert("$schema".to_owned(), json!(DRAFT));
        if !needed.is_empty() {
            document.insert("$defs".to_owned(), json!(needed));
        }
        document
    }

    fn collect<'a>(&'a self, value: &Value, needed: &mut BTreeMap<&'a str, &'a Value>) {
        match value {
            Value::String(text) => {
                let found = text.strip_prefix(PREFIX).and_then(|name| self.all.get_key_value(name));
                if let Some((name, schema)) = found
                    && needed.insert(name, schema).is_none()
                {
                    self.collect(schema, needed);
                }
            }
            Value::Array(elements) => elements.iter().for_each(|element| self.collect(element, needed)),
            Value::Object(members) => members.values().for_each(|member| self.collect(member, needed)),
            _ => {}
        }
    }
}

/// Every integer on the wire is one that a double holds; `format` says nothing to a validator.
fn as_safe_integer(schema: &mut Schema) {
    let Some(format) = schema.remove("format") else { return };
    let Some(members) = schema.as_object_mut() else { return };
    match format.as_str() {
        Some("uint64") => {
            members.entry("minimum").or_insert(json!(0));
            members.insert("maximum".to_owned(), json!(MAX_SAFE_INTEGER));
        }
        Some("int64") => {
            members.insert("minimum".to_owned(), json!(-(MAX_SAFE_INTEGER as i64)));
            members.insert("maximum".to_owned(), json!(MAX_SAFE_INTEGER));
        }
        Some("uint32") => {
            members.insert("maximum".to_owned(), json!(u32::MAX));
        }
        _ => {}
    }
}

/// A docstring's line ends are the source's, not the reader's.
fn on_one_line(schema: &mut Schema) {
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
}

/// A member that may be absent is never null: the generator knows no `Option` without it.
fn drop_nulls(schema: &mut Schema) {
    let Some(members) = schema.as_object_mut() else { return };
    let required = members.get("required").cloned().unwrap_or_default();
    let is_required =
        |name: &str| required.as_array().is_some_and(|all| all.iter().any(|other| other == name));
    let Some(properties) = members.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for (name, property) in properties {
        if let (false, Some(property)) = (is_required(name), property.as_object_mut()) {
            drop_null(property);
        }
    }
}

fn drop_null(property: &mut Map<String, Value>) {
    let null = json!("null");
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|kind| *kind != null);
        if let [only] = types.as_slice() {
            let only = only.clone();
            property.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = property.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(choices)) = property.get_mut("anyOf") {
        choices.retain(|choice| choice.get("type") != Some(&null));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            property.remove("anyOf");
            property.extend(only);
        }
    }
}
