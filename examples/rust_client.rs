//! Creates a session, appends a turn, forks it and replays the fork.
//!
//! ```sh
//! cargo run --features client --example rust_client -- target/release/sessiond serve --store memory:
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;

use serde_json::json;
use sessiond::client::{Client, Handshake, Notification};
use sessiond::protocol::params::{
    AppendBatchParams, BatchEvent, EndParams, ForkParams, LoadParams, NewParams, ReplayMode,
};
use tokio::process::Command;

/// An event of the log alone.
fn event(kind: &str, data: serde_json::Value) -> BatchEvent {
    BatchEvent { kind: json!(kind).into(), data: data.into(), ..BatchEvent::default() }
}

/// A message: it joins what the model is shown.
fn message(kind: &str, data: serde_json::Value) -> BatchEvent {
    BatchEvent { surface_op: Some(json!("append").into()), ..event(kind, data) }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let program = words.next().unwrap_or_else(|| "sessiond".to_owned());
    let mut command = Command::new(&program);
    let words: Vec<String> = words.collect();
    if words.is_empty() {
        command.args(["serve", "--store", "memory:"]);
    }
    command.args(words);

    // Notifications have a reader of their own: when it is slow, the daemon waits for it.
    let spawned = Client::spawn(command).map_err(|error| format!("{program} does not start: {error}"));
    let (client, mut notifications) = spawned?;
    let reader = tokio::spawn(async move {
        while let Some(notification) = notifications.next().await {
            if let Notification::Update(notice) = notification {
                println!("replayed {}", notice.update.text());
            }
        }
    });
    let daemon = client.initialize(Handshake::default().notifications([])).await?;
    println!("{} {}", daemon.agent_info.name, daemon.agent_info.version);

    let cwd = std::env::current_dir()?.to_str().map(str::to_owned);
    let session = client.new_session(NewParams { cwd, ..NewParams::default() }).await?.session_id;
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    let model = json!({"kind": "model", "provider": "example", "model": "none"});
    let answer = json!({"id": "a1", "role": "assistant", "content": text("Hello."), "source": model});
    let events = vec![
        event("turn/start", json!({"turn": 1})),
        message(
            "user/message",
            json!({"id": "u1", "role": "user", "content": text("Hi"), "source": {"kind": "user"}}),
        ),
        event("step/start", json!({"turn": 1, "step": 1})),
        message("assistant/message", json!({"turn": 1, "step": 1, "message": answer})),
        event("step/end", json!({"turn": 1, "step": 1})),
        event("turn/end", json!({"turn": 1, "reason": {"kind": "completed"}})),
    ];
    let turn = AppendBatchParams { session_id: session.clone(), events, ..AppendBatchParams::default() };
    println!("appended {} events", client.append_batch(turn).await?.count);

    let fork = client.fork(ForkParams { session_id: session.clone(), ..ForkParams::default() }).await?;
    println!("forked after event {:?}", fork.boundary);
    let replay = LoadParams {
        session_id: fork.session_id.clone(),
        replay: Some(ReplayMode::Updates),
        ..LoadParams::default()
    };
    client.load(replay).await?;
    for session_id in [session, fork.session_id] {
        client.close(EndParams { session_id, ..EndParams::default() }).await?;
    }
    println!("the daemon ended with {}", client.shut_down().await?);
    reader.await?;
    Ok(())
}
