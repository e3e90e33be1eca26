//! Do the recorded answers of the reference about JSON values hold?

use sessiond::json::{FaultKind, Json, JsonText};

use crate::support;

/// Whether a text is lossy by the reference's rule; `None` where a duplicate key came first, which is
/// refused here and merged there (PROTOCOL 9.2).
fn is_lossy(text: &str) -> Option<bool> {
    let (_, checks) = Json::parse(text).unwrap();
    match checks.fault.map(|fault| fault.kind) {
        Some(FaultKind::DuplicateKey) => None,
        other => Some(other.is_some()),
    }
}

#[test]
fn lossless_values_have_no_fault() {
    for file in ["01-json.json", "27-random-json.json"] {
        support::each_op(file, "isJsonValue", |case, op| {
            let text = op.text("valueJson");
            let lossless = op.ok().unwrap()["lossless"] == true;
            assert!(is_lossy(text).is_none_or(|lossy| lossy != lossless), "{case} {text}");
        });
    }
}

#[test]
fn appended_data_that_is_refused_as_lossy_has_a_fault() {
    for file in ["01-json.json", "27-random-json.json"] {
        support::each_op(file, "append", |case, op| {
            let text = op.text("dataJson");
            let refused = op.classes().contains(&"JSON_NOT_LOSSLESS");
            assert!(is_lossy(text).is_none_or(|lossy| lossy == refused), "{case} {text}");
        });
    }
}

#[test]
fn kept_text_is_the_value_that_the_reference_prints() {
    support::each_op("01-json.json", "normalizeJson", |case, op| {
        let (kept, _) = JsonText::parse(op.text("valueJson")).unwrap();
        let want = op.ok().unwrap()["json"].as_str().unwrap();
        assert!(support::same_json(kept.text(), want), "{case}: {} and {want}", kept.text());
    });
}
