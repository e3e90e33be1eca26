//! probe
#[test]
fn probe() {
    assert!(jsonschema::is_valid(&serde_json::json!({"type":"string"}), &serde_json::json!("x")));
}
