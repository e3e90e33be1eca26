//! Content blocks: the log's open set (FORMAT 4) as ACP's closed one (ACP 6).
//!
//! A block that ACP has, with what ACP requires of it, passes with its optional members. Any other is shown by its text,
//! else by a placeholder that says what it is: no block that a person wrote or a tool gave is left out silently.

use super::arguments::raw;
use super::fields::{filled, inner, is_absolute, one_line, string};
use super::split;
use super::update::AsBlock;
use crate::json::{Json, JsonStr, Type, quote_into};

/// How a block went out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    Whole,
    /// A beginning of its text, or a placeholder for what is too large.
    Cut,
    /// It is a text without a character. Nothing was written.
    Nothing,
    /// It would be too large. Nothing was written.
    NoRoom,
}

/// A written form is at most so much longer than what it takes from its block.
const FRAME: usize = 64;

/// A text block from the text's JSON without quotes, and from members that [`members`] gave.
pub(super) fn write_text(inner: &str, members: &str, out: &mut String) {
    out.push_str("{\"type\":\"text\",\"text\":\"");
    out.push_str(inner);
    out.push('"');
    out.push_str(members);
    out.push('}');
}

/// The text that shows a block: of a text, and of a kind that ACP does not have.
pub(super) fn text_of(block: Json<'_>) -> Option<JsonStr<'_>> {
    let [kind, text] = block.fields(&["type", "text"]);
    let is_own =
        |kind: Json<'_>| ["image", "audio", "resource", "resource_link"].iter().any(|own| kind.is_str(own));
    if kind.is_some_and(is_own) { None } else { filled(text) }
}

/// The optional members of a block that every kind may have: what a client is told of a part of a text, and, for its
/// first part only, `_meta` (it may be large).
pub(super) fn members(block: Json<'_>, is_first: bool) -> String {
    let mut out = String::new();
    let [annotations, meta] = block.fields(&["annotations", "_meta"]);
    if let Some(given) = annotations.filter(|given| given.kind() == Type::Object) {
        write_annotations(given, is_first, &mut out);
    }
    if is_first {
        write_meta(meta, &mut out);
    }
    out
}

/// Annotations as far as they fit: a receiver drops what does not (ACP 2).
fn write_annotations(given: Json<'_>, is_first: bool, out: &mut String) {
    const LONGEST: usize = 100;
    let short = |value: &Json<'_>| value.text().len() <= LONGEST;
    let [audience, modified, priority, meta] =
        given.fields(&["audience", "lastModified", "priority", "_meta"]);
    let mut members = String::new();
    if let Some(audience) = audience.filter(|audience| audience.kind() == Type::Array) {
        let mut roles: Vec<&str> = Vec::new();
        for role in audience.elements() {
            let known =
                ["\"user\"", "\"assistant\""].into_iter().find(|known| role.is_str(known.trim_matches('"')));
            roles.extend(known.filter(|known| !roles.contains(known)));
        }
        member("audience", &format!("[{}]", roles.join(",")), &mut members);
    }
    optional("lastModified", modified.filter(short), &mut members);
    if let Some(priority) = priority.filter(|value| value.kind() == Type::Number).filter(short) {
        member("priority", priority.text(), &mut members);
    }
    if is_first {
        write_meta(meta, &mut members);
    }
    let members = members.strip_prefix(',').unwrap_or("");
    member("annotations", &format!("{{{members}}}"), out);
}

/// `_meta`, if it is an object that readers can take.
fn write_meta(meta: Option<Json<'_>>, out: &mut String) {
    if let Some(meta) = meta.filter(|meta| meta.kind() == Type::Object).and_then(raw) {
        member("_meta", &meta, out);
    }
}

/// Appends a block in at most `room` bytes: a text, ACP's own kinds when they have what ACP requires (clients store
/// them), an image without bytes as a link to the attachment that it names, else a placeholder.
pub(super) fn write(block: Json<'_>, out: &mut String, room: usize) -> Wrote {
    if let Some(text) = text_of(block) {
        return write_whole_text(text, block, out, room);
    }
    let [kind, text] = block.fields(&["type", "text"]);
    if kind.is_some_and(|kind| kind.is_str("text")) && string(text).is_some() {
        return Wrote::Nothing;
    }
    let start = out.len();
    let fits = block.text().len() + 2 * FRAME <= room;
    if fits && write_own(kind, block, out).is_some() {
        out.push_str(&members(block, true));
        out.push('}');
        return Wrote::Whole;
    }
    out.truncate(start);
    let members = if fits { members(block, true) } else { String::new() };
    let mut place = String::new();
    quote_into(&placeholder(block), &mut place);
    if place.len() + members.len() + FRAME > room {
        return Wrote::NoRoom;
    }
    write_text(place.trim_matches('"'), &members, out);
    if fits { Wrote::Whole } else { Wrote::Cut }
}

fn write_whole_text(text: JsonStr<'_>, block: Json<'_>, out: &mut String, room: usize) -> Wrote {
    let (inner, members) = (inner(text), members(block, true));
    if inner.len() + members.len() + FRAME <= room {
        write_text(inner, &members, out);
        return Wrote::Whole;
    }
    let (head, _) = split::head(inner, room.saturating_sub(FRAME));
    if head.len() + FRAME > room {
        return Wrote::NoRoom;
    }
    write_text(head, "", out);
    Wrote::Cut
}

/// What a block is, in square brackets, with the name of what it holds if it has one.
fn placeholder(block: Json<'_>) -> String {
    const NAMES: [&str; 9] =
        ["name", "title", "filename", "path", "uri", "url", "terminalId", "toolCallId", "id"];
    let kind = filled(block.get("type")).map(|kind| one_line(kind, 40)).unwrap_or_default();
    let kind = if kind.is_empty() { "content" } else { &kind };
    let inside = ["resource", "file", "attachment", "source"].map(|name| block.get(name));
    let named = |object: Json<'_>| {
        let names = NAMES.iter().filter_map(|name| filled(object.get(name)));
        names.map(|name| one_line(name, 100)).find(|name| !name.is_empty() && !name.starts_with("data:"))
    };
    match std::iter::once(Some(block)).chain(inside).flatten().find_map(named) {
        Some(name) => format!("[{kind}: {name}]"),
        None => format!("[{kind}]"),
    }
}

/// Appends a block of one of ACP's kinds but for its common members and the closing brace. What is written before it
/// turns out that something is missing is to be dropped.
fn write_own(kind: Option<Json<'_>>, block: Json<'_>, out: &mut String) -> Option<()> {
    let kind = string(kind)?;
    if kind.is("image") {
        media("image", block, out).or_else(|| link(block, out))
    } else if kind.is("audio") {
        media("audio", block, out)
    } else if kind.is("resource_link") {
        resource_link(block, out)
    } else if kind.is("resource") {
        resource(block, out)
    } else {
        None
    }
}

/// Appends the opening of a block with its required members.
fn open(kind: &str, required: &[(&str, &str)], out: &mut String) {
    out.push_str("{\"type\":\"");
    out.push_str(kind);
    out.push('"');
    for (name, json) in required {
        member(name, json, out);
    }
}

fn member(name: &str, json: &str, out: &mut String) {
    out.push_str(",\"");
    out.push_str(name);
    out.push_str("\":");
    out.push_str(json);
}

/// Appends a member that is left out when it is not a string.
fn optional(name: &str, value: Option<Json<'_>>, out: &mut String) {
    if let Some(text) = string(value) {
        member(name, text.text(), out);
    }
}

/// Image or audio whose bytes (base64) stand in the block.
fn media(kind: &str, block: Json<'_>, out: &mut String) -> Option<()> {
    let [data, mime, media, uri] = block.fields(&["data", "mimeType", "mediaType", "uri"]);
    let (data, mime) = (string(data)?, string(mime).or(string(media))?);
    open(kind, &[("data", data.text()), ("mimeType", mime.text())], out);
    if kind == "image" {
        optional("uri", uri, out);
    }
    Some(())
}

/// An image that names an attachment: the bytes are not in the log.
fn link(block: Json<'_>, out: &mut String) -> Option<()> {
    let [id, media, bytes, name] =
        block.get("attachment")?.fields(&["attachmentId", "mediaType", "bytes", "name"]);
    let uri = format!("\"attachment:{}\"", inner(filled(id)?));
    let name = filled(name).map_or("\"image\"", JsonStr::text);
    open("resource_link", &[("uri", &uri), ("name", name)], out);
    optional("mimeType", media, out);
    size(bytes, out);
    Some(())
}

fn size(bytes: Option<Json<'_>>, out: &mut String) {
    if let Some(bytes) = bytes.and_then(Json::as_safe_uint) {
        member("size", &bytes.to_string(), out);
    }
}

fn resource_link(block: Json<'_>, out: &mut String) -> Option<()> {
    let [uri, name, title, description, mime, bytes] =
        block.fields(&["uri", "name", "title", "description", "mimeType", "size"]);
    let (uri, name) = (string(uri)?, string(name)?);
    open("resource_link", &[("uri", uri.text()), ("name", name.text())], out);
    optional("title", title, out);
    optional("description", description, out);
    optional("mimeType", mime, out);
    size(bytes, out);
    Some(())
}

fn resource(block: Json<'_>, out: &mut String) -> Option<()> {
    let [uri, text, blob, mime, meta] =
        block.get("resource")?.fields(&["uri", "text", "blob", "mimeType", "_meta"]);
    let uri = string(uri)?;
    let (name, payload) = match string(text) {
        Some(text) => ("text", text),
        None => ("blob", string(blob)?),
    };
    out.push_str("{\"type\":\"resource\",\"resource\":{\"uri\":");
    out.push_str(uri.text());
    member(name, payload.text(), out);
    optional("mimeType", mime, out);
    write_meta(meta, out);
    out.push('}');
    Some(())
}

/// A block of a tool's result as ACP's ToolCallContent: a diff as it is, any other as content. A log may hold it in
/// ACP's form already.
pub(super) struct Output<'a>(pub(super) Json<'a>);

impl AsBlock for Output<'_> {
    fn write(&self, out: &mut String, room: usize) -> Wrote {
        let Self(given) = *self;
        let [kind, content, meta] = given.fields(&["type", "content", "_meta"]);
        let is = |name: &str| kind.is_some_and(|kind| kind.is_str(name));
        let start = out.len();
        if is("diff") && given.text().len() + FRAME <= room {
            if diff(given, out).is_some() {
                return Wrote::Whole;
            }
            out.truncate(start);
        }
        let wrapped = content.filter(|content| is("content") && content.kind() == Type::Object);
        let mut close = String::new();
        if wrapped.is_some() {
            write_meta(meta, &mut close);
        }
        close.push('}');
        out.push_str("{\"type\":\"content\",\"content\":");
        let wrote = write(wrapped.unwrap_or(given), out, room.saturating_sub(FRAME + close.len()));
        match wrote {
            Wrote::Whole | Wrote::Cut => out.push_str(&close),
            Wrote::Nothing | Wrote::NoRoom => out.truncate(start),
        }
        wrote
    }
}

/// ACP's diff: an absolute path and the text behind it; the text before may be missing or null.
fn diff(block: Json<'_>, out: &mut String) -> Option<()> {
    let [path, old, new, meta] = block.fields(&["path", "oldText", "newText", "_meta"]);
    let (path, new) = (string(path).filter(|path| is_absolute(*path))?, string(new)?);
    open("diff", &[("path", path.text())], out);
    if let Some(old) = old {
        if !matches!(old.kind(), Type::String | Type::Null) {
            return None;
        }
        member("oldText", old.text(), out);
    }
    member("newText", new.text(), out);
    write_meta(meta, out);
    out.push('}');
    Some(())
}
