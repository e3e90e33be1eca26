//! Creates a session, appends a turn, forks it, reads the fork and replays it.
//!
//! ```sh
//! cargo run --features client --example rust_client -- target/release/sessiond serve --store memory:
//! ```
#![allow(clippy::print_stdout)]

use std::error::Error;

use serde_json::json;
use sessiond::client::{Client, Handshake, Notification};
use sessiond::protocol::params::{
    AppendBatchParams, BatchEvent, EndParams, EventsParams, ForkParams, LoadParams, NewParams, ReplayMode,
};
use sessiond::protocol::payloads::Payload;
use sessiond::protocol::shapes::SurfaceOp;
use tokio::process::Command;

/// A message: it joins what the model is shown.
fn message(kind: &str, data: serde_json::Value) -> BatchEvent {
    BatchEvent::new(kind, data).on_surface(SurfaceOp::Append)
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
        BatchEvent::new("turn/start", json!({"turn": 1})),
        message(
            "user/message",
            json!({"id": "u1", "role": "user", "content": text("Hi"), "source": {"kind": "user"}}),
        ),
        BatchEvent::new("step/start", json!({"turn": 1, "step": 1})),
        message("assistant/message", json!({"turn": 1, "step": 1, "message": answer})),
        BatchEvent::new("step/end", json!({"turn": 1, "step": 1})),
        BatchEvent::new("turn/end", json!({"turn": 1, "reason": {"kind": "completed"}})),
    ];
    let turn = AppendBatchParams::new(&session, events);
    println!("appended {} events", client.append_batch(turn).await?.count);

    let fork = client.fork(ForkParams::of(&session)).await?;
    println!("forked after event {:?}", fork.boundary);
    for event in client.events(EventsParams::of(&fork.session_id)).await?.read_events()? {
        if let Payload::AssistantMessage(said) = Payload::of(&event) {
            println!("event {}, step {}: {:?}", event.seq, said.place.step, said.message.content);
        }
    }
    let replay = LoadParams { replay: Some(ReplayMode::Updates), ..LoadParams::of(&fork.session_id) };
    client.load(replay).await?;
    for session_id in [session, fork.session_id] {
        client.close(EndParams::of(session_id)).await?;
    }
    if let Some(status) = client.shut_down().await? {
        println!("the daemon ended with {status}");
    }
    reader.await?;
    Ok(())
}
