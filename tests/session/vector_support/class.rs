//! The reference's class of each refusal.

use serde_json::Value;
use sessiond::json::FaultKind;
use sessiond::protocol::WireError;
use sessiond::session::Refusal;

/// Classes that the reference gives only when it loads, seeds or forks.
pub fn refuses_at_load(class: &str) -> bool {
    ["MESSAGE_", "HEADER_EVENT_", "LEGACY_"].iter().any(|prefix| class.starts_with(prefix))
}

/// FORMAT's class of a refusal, with the index in a seed; the code on the wire must be that class's.
pub fn class_of(refusal: &Refusal, seed: bool) -> (Option<u64>, &'static str) {
    let error = WireError::from(refusal.clone());
    let data: Value = serde_json::from_str(&error.to_json()).unwrap();
    let (index, class) = match refusal {
        Refusal::At { index, cause } => (Some(*index as u64), plain_class(cause, seed)),
        other => (None, plain_class(other, seed)),
    };
    let code = match class {
        "FORK_SESSION_NOT_FOUND" => "SESSION_NOT_FOUND",
        "FORK_SESSION_NOT_LIVE" => "SESSION_NOT_LIVE",
        "SESSION_EXISTS" => "SESSION_ALREADY_EXISTS",
        "FORK_INVALID_BOUNDARY" => "INVALID_BOUNDARY",
        "FORK_OPEN_TURN" => "OPEN_TURN",
        "DUPLICATE_KEY" | "JSON_NOT_LOSSLESS" | "SURFACE_META_NOT_LOSSLESS" | "SEED_NOT_LOSSLESS" => {
            "LOSSY_JSON"
        }
        "EVENT_TYPE_UNKNOWN" => "UNKNOWN_EVENT_TYPE",
        "SEED_REQUIRED" | "INHERITED_COUNT_REQUIRED" | "INHERITED_COUNT_EXCEEDS" => "INVALID_PARAMS",
        class if class.starts_with("INV_") => "INVARIANT_VIOLATION",
        class if class.starts_with("SEED_") || refuses_at_load(class) => "INVALID_EVENT",
        _ => "INVALID_SURFACE",
    };
    assert_eq!(data["data"]["code"], code, "{data}");
    if let "INVALID_SURFACE" | "INVARIANT_VIOLATION" = code {
        assert_eq!(data["data"]["rule"], class, "{data}");
    }
    assert_eq!(data["data"]["index"].as_u64(), index, "{data}");
    (index, class)
}

fn plain_class(refusal: &Refusal, seed: bool) -> &'static str {
    match refusal {
        Refusal::NotFound(_) => "FORK_SESSION_NOT_FOUND",
        Refusal::NotLive { .. } => "FORK_SESSION_NOT_LIVE",
        Refusal::AlreadyExists { .. } => "SESSION_EXISTS",
        Refusal::InvalidBoundary { .. } => "FORK_INVALID_BOUNDARY",
        Refusal::OpenTurn { .. } => "FORK_OPEN_TURN",
        Refusal::LossyJson { kind: FaultKind::DuplicateKey, .. } => "DUPLICATE_KEY",
        Refusal::LossyJson { .. } if seed => "SEED_NOT_LOSSLESS",
        Refusal::LossyJson { pointer, .. } if pointer.starts_with("/data") => "JSON_NOT_LOSSLESS",
        Refusal::LossyJson { .. } => "SURFACE_META_NOT_LOSSLESS",
        Refusal::Envelope(_) => "SEED_ENVELOPE",
        Refusal::Shape(error) => error.class(),
        Refusal::SeedSeq { .. } => "SEED_SEQ",
        Refusal::UnknownType(_) => "EVENT_TYPE_UNKNOWN",
        Refusal::Surface(error) => error.rule(),
        Refusal::Relation(error) => error.rule(),
        Refusal::Invalid(text) if text.contains("needs a seed") => "SEED_REQUIRED",
        Refusal::Invalid(text) if text.contains("needs meta.seedLength") => "INHERITED_COUNT_REQUIRED",
        Refusal::Invalid(text) if text.contains("exceeds") => "INHERITED_COUNT_EXCEEDS",
        other => panic!("no class for {other}"),
    }
}
