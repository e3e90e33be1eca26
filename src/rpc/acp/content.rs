//! Content blocks: the log's open set (FORMAT 4) as ACP's closed one (ACP 6).

use super::fields::{filled, inner, string};
use super::split;
use crate::json::{Json, JsonStr};

/// How a block went out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    Whole,
    /// A beginning of its text.
    Cut,
    /// ACP has no block for it, or there is nothing to show. The text written is to be dropped.
    Nothing,
    /// It would be too large. Nothing was written.
    NoRoom,
}

/// A text block from the text's JSON without quotes.
pub(super) fn write_text(inner: &str, out: &mut String) {
    out.push_str("{\"type\":\"text\",\"text\":\"");
    out.push_str(inner);
    out.push_str("\"}");
}

/// The text of a `text` block.
pub(super) fn text_of(block: Json<'_>) -> Option<JsonStr<'_>> {
    let [kind, text] = block.fields(&["type", "text"]);
    if kind?.is_str("text") { filled(text) } else { None }
}

/// Appends a block in at most `room` bytes: text, an image by its bytes or as a link to the attachment
/// that it names, and ACP's own kinds when they have what ACP requires (clients store them).
pub(super) fn write(block: Json<'_>, out: &mut String, room: usize) -> Wrote {
    const FRAME: usize = 64;
    if let Some(text) = text_of(block) {
        let inner = inner(text);
        if inner.len() + FRAME <= room {
            write_text(inner, out);
            return Wrote::Whole;
        }
        let (head, _) = split::head(inner, room.saturating_sub(FRAME));
        if head.len() + FRAME > room {
            return Wrote::NoRoom;
        }
        write_text(head, out);
        return Wrote::Cut;
    }
    // A written form is at most so much longer than its block.
    if block.text().len() + 2 * FRAME > room {
        return Wrote::NoRoom;
    }
    let kind = string(block.get("type"));
    let is = |name: &str| kind.is_some_and(|kind| kind.is(name));
    let written = if is("image") {
        media("image", block, out).or_else(|| link(block, out))
    } else if is("audio") {
        media("audio", block, out)
    } else if is("resource_link") {
        resource_link(block, out)
    } else if is("resource") {
        resource(block, out)
    } else {
        None
    };
    if written.is_some() { Wrote::Whole } else { Wrote::Nothing }
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
    out.push('}');
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
    out.push('}');
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
    out.push('}');
    Some(())
}

fn resource(block: Json<'_>, out: &mut String) -> Option<()> {
    let [uri, text, blob, mime] = block.get("resource")?.fields(&["uri", "text", "blob", "mimeType"]);
    let uri = string(uri)?;
    let (name, payload) = match string(text) {
        Some(text) => ("text", text),
        None => ("blob", string(blob)?),
    };
    out.push_str("{\"type\":\"resource\",\"resource\":{\"uri\":");
    out.push_str(uri.text());
    member(name, payload.text(), out);
    optional("mimeType", mime, out);
    out.push_str("}}");
    Some(())
}
