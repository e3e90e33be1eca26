//! The typed client against a real daemon: every kind of call, refusals, order, a slow reader, an end.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use sessiond::client::{Client, ClientError, Handshake, NOTIFICATIONS_HELD, Notification, Notifications};
use sessiond::protocol::params::*;
use sessiond::protocol::payloads::{ContentBlock, Payload, TurnEndReason};
use sessiond::protocol::shapes::SurfaceOp;
use sessiond::protocol::{Code, Notice, RawJson};
use tokio::process::Command;

fn daemon() -> (Client, Notifications) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
    command.args(["serve", "--store", "memory:", "--ids", "sequential"]);
    Client::spawn(command).unwrap()
}

fn user(id: &str, text: &str) -> Value {
    json!({"id": id, "role": "user", "content": [{"type": "text", "text": text}], "source": {"kind": "user"}})
}

fn append(session: &str, kind: &str, data: Value) -> AppendParams {
    let surface_op = kind.ends_with("/message").then(|| json!("append").into());
    AppendParams {
        session_id: session.to_owned(),
        kind: json!(kind).into(),
        data: data.into(),
        surface_op,
        ..AppendParams::default()
    }
}

fn batch_event(kind: &str, data: Value) -> BatchEvent {
    let surface_op = kind.ends_with("/message").then(|| json!("append").into());
    BatchEvent { kind: json!(kind).into(), data: data.into(), surface_op, ..BatchEvent::default() }
}

fn one(session: &str) -> SessionParams {
    SessionParams { session_id: session.to_owned(), ..SessionParams::default() }
}

fn end(session: &str) -> EndParams {
    EndParams { session_id: session.to_owned(), ..EndParams::default() }
}

fn name(error: ClientError) -> String {
    error.name().unwrap_or_else(|| panic!("{error}"))
}

#[tokio::test]
async fn every_method_has_a_typed_call() {
    let (client, mut notifications) = daemon();
    let wanted = [Notice::Created, Notice::Event, Notice::Disposed];
    let hello = client.initialize(Handshake::default().notifications(wanted)).await.unwrap();
    assert_eq!((hello.protocol_version, &*hello.agent_info.name), (1, "sessiond"));

    let opened =
        client.new_session(NewParams { cwd: Some("/w".into()), ..NewParams::default() }).await.unwrap();
    let id = &*opened.session_id;
    assert_eq!((id, opened.next_seq, opened.header.cwd.as_deref()), ("session-1", 0, Some("/w")));
    let started = client.append(append(id, "turn/start", json!({"turn": 1}))).await.unwrap();
    assert_eq!((started.seq, started.duplicate), (0, false));
    // White space with line breaks between tokens is no end of a line.
    let spaced = RawJson::from_text("{\n\"id\":\"u\",\r\n\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"é\u{2028}\\n\"}],\"source\":{\"kind\":\"user\"}}".into());
    let message = AppendParams { data: spaced, ..append(id, "user/message", json!(null)) };
    assert_eq!(client.append(message).await.unwrap().seq, 1);
    let answered =
        client.interrupt(InterruptParams { session_id: id.into(), ..Default::default() }).await.unwrap();
    assert_eq!((answered.first_seq, answered.count), (2, 1));

    let snapshot =
        client.snapshot(SnapshotParams { session_id: id.into(), ..Default::default() }).await.unwrap();
    assert!(snapshot.seed.text().contains("u2028"));
    let forked = client
        .fork(ForkParams { session_id: id.into(), boundary: Some(json!(2).into()), ..Default::default() })
        .await
        .unwrap();
    assert_eq!((forked.boundary, forked.inherited_event_count), (Some(2), 3));
    let child = &*forked.session_id;
    let own = EventsParams { session_id: child.into(), own: Some(true), ..Default::default() };
    let own = client.events(own).await.unwrap();
    assert!(own.events.text().contains("session/end-seed"), "{}", own.events.text());
    let messages = MessagesParams { session_id: child.into(), ..Default::default() };
    assert_eq!(client.messages(messages).await.unwrap().total, 1);
    let through = ThroughParams { session_id: child.into(), ..Default::default() };
    assert_eq!(client.surface(through).await.unwrap().nodes, [1]);
    let request = RequestParams { session_id: child.into(), ..Default::default() };
    assert!(client.model_request(request).await.unwrap().header.is_none());
    assert_eq!(client.info(one(child)).await.unwrap().next_seq, 4);
    assert_eq!(client.flush(one(child)).await.unwrap().durable_seq, None);
    let listed = client.list(ListParams { cwd: Some("/w".into()), ..Default::default() }).await.unwrap();
    assert_eq!(listed.sessions.len(), 2);

    let status = client.status(StatusParams::default()).await.unwrap();
    assert_eq!((&*status.store.kind, status.live_sessions), ("memory", 2));

    client.close(end(child)).await.unwrap();
    let inspect = InspectParams { session_id: child.into(), ..Default::default() };
    assert_eq!(client.inspect(inspect).await.unwrap().next_seq, 4);
    let resume = ResumeParams { session_id: child.into(), ..Default::default() };
    assert_eq!(client.resume(resume).await.unwrap().next_seq, 4);
    let load =
        LoadParams { session_id: child.into(), replay: Some(ReplayMode::Updates), ..Default::default() };
    client.load(load).await.unwrap();
    client.delete(end(child)).await.unwrap();
    assert_eq!(name(client.info(one(child)).await.unwrap_err()), "SESSION_NOT_FOUND");
    assert!(client.shut_down().await.unwrap().unwrap().success());

    let mut told = Vec::new();
    while let Some(notification) = notifications.next().await {
        told.push(match notification {
            Notification::Created(opened) => format!("created {}", opened.session_id),
            Notification::Event(notice) => format!("event {}", notice.session_id),
            Notification::Update(notice) => format!("update {}", notice.session_id),
            Notification::Disposed(notice) => format!("disposed {}", notice.session_id),
            other => panic!("{other:?}"),
        });
    }
    let expected = [
        "created session-1",
        "event session-1",
        "event session-1",
        "event session-1",
        "created session-2",
        "disposed session-2",
        "created session-2",
        "update session-2",
        "disposed session-2",
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn refusals_carry_their_facts_and_leave_the_client_whole() {
    let (client, notifications) = daemon();
    drop(notifications); // who wants none loses no answer
    client.new_session(NewParams::default()).await.unwrap();
    let error = client.append(append("session-1", "a/b", json!({}))).await.unwrap_err();
    let ClientError::Refused { code, message, data } = &error else { panic!("{error}") };
    assert_eq!((*code, error.name().as_deref()), (-31012, Some("UNKNOWN_EVENT_TYPE")));
    assert!(!message.is_empty() && data.text().contains("\"a/b\""), "{error}");
    let late =
        AppendParams { expected_seq: Some(7), ..append("session-1", "turn/start", json!({"turn": 1})) };
    assert_eq!(name(client.append(late).await.unwrap_err()), "SEQ_CONFLICT");
    client.append(append("session-1", "turn/start", json!({"turn": 1}))).await.unwrap();
    assert_eq!(client.info(one("session-1")).await.unwrap().next_seq, 1);
}

#[tokio::test]
async fn calls_side_by_side_take_effect_in_the_order_of_sending() {
    let (client, notifications) = daemon();
    drop(notifications);
    client.new_session(NewParams::default()).await.unwrap();
    let calls =
        (0..300).map(|n| client.append(append("session-1", "user/message", user(&format!("u{n}"), "x"))));
    // Polled in order the first time: sent in that order.
    let done: Vec<_> = join_in_order(calls.collect()).await;
    let seqs: Vec<u64> = done.into_iter().map(|done| done.unwrap().seq).collect();
    assert_eq!(seqs, (0..300).collect::<Vec<u64>>());
}

/// Polls all, in order, until all are ready.
async fn join_in_order<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, slot) in futures.iter_mut().zip(&mut done) {
            if slot.is_none()
                && let std::task::Poll::Ready(output) = future.as_mut().poll(context)
            {
                *slot = Some(output);
            }
        }
        if done.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[tokio::test]
async fn a_slow_reader_loses_nothing_and_an_answer_waits_for_it() {
    const MANY: usize = 20 * NOTIFICATIONS_HELD;
    let (client, mut notifications) = daemon();
    client.initialize(Handshake::default().notifications([Notice::Event])).await.unwrap();
    client
        .new_session(NewParams { invariants: Some(InvariantsMode::Off), ..Default::default() })
        .await
        .unwrap();
    let text = "x".repeat(200);
    for part in 0..MANY / 5_120 {
        let events =
            (0..5_120).map(|n| batch_event("user/message", user(&format!("u{}", part * 5_120 + n), &text)));
        let batch = AppendBatchParams {
            session_id: "session-1".into(),
            events: events.collect(),
            ..Default::default()
        };
        let mut answer = std::pin::pin!(client.append_batch(batch));
        // More came than is held: the answer stands behind it.
        let early = tokio::time::timeout(Duration::from_millis(300), answer.as_mut()).await;
        assert!(early.is_err(), "an answer overtook its notifications");
        let reading = async {
            for n in 0..5_120 {
                let Some(Notification::Event(notice)) = notifications.next().await else { panic!("{n}") };
                assert!(notice.event.text().contains(&format!("\"seq\":{},", part * 5_120 + n)));
            }
        };
        let (answer, ()) = tokio::join!(answer, reading);
        assert_eq!(answer.unwrap().count, 5_120);
    }
    assert!(notifications.try_next().is_none());
    assert!(client.shut_down().await.unwrap().unwrap().success());
    assert!(notifications.next().await.is_none());
}

#[tokio::test]
async fn an_ended_daemon_is_an_error_and_no_hang() {
    let (client, mut notifications) = daemon();
    client.new_session(NewParams::default()).await.unwrap();
    let pid = client.process_id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-9", &pid]).status().unwrap().success());
    let error = client.info(one("session-1")).await.unwrap_err();
    assert!(matches!(error, ClientError::Ended(_)), "{error}");
    while notifications.next().await.is_some() {}
    assert!(!client.shut_down().await.unwrap().unwrap().success());
    assert!(matches!(Client::spawn(Command::new("/no/such/daemon")), Err(ClientError::Process(_))));
}

#[tokio::test]
async fn what_is_no_answer_of_ours_ends_nothing() {
    // A daemon that speaks nonsense around its answers.
    let script = r#"read line; printf '\n{}\n[1]\nnonsense\n\377\n{"jsonrpc":"2.0","id":99,"result":{}}\n{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}\n{"jsonrpc":"2.0","method":"x/y","params":{"z":1}}\n{"jsonrpc":"2.0","method":"session/event","params":{}}\n{"jsonrpc":"2.0","id":0,"result":{}}\r\n'; read line"#;
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    let (client, mut notifications) = Client::spawn(command).unwrap();
    client.close(end("a")).await.unwrap();
    for wanted in ["x/y", "session/event"] {
        let Some(Notification::Other { method, .. }) = notifications.next().await else { panic!("{wanted}") };
        assert_eq!(method, wanted);
    }
    client.shut_down().await.unwrap();
}

#[tokio::test]
async fn events_and_messages_are_types_over_any_pipes() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
    command.args(["serve", "--store", "memory:", "--ids", "sequential"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (client, mut notifications) =
        Client::connect(child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let hello = Handshake::default().notifications([Notice::Event]).event_type("own/note", false);
    client.initialize(hello).await.unwrap();
    client.new_session(NewParams::default()).await.unwrap();

    let source = json!({"kind": "model", "provider": "p", "model": "m"});
    let call = json!({"type": "tool-call", "id": "c", "name": "read", "arguments": "{}"});
    let content = json!([{"type": "text", "text": "hi"}, call, {"type": "hologram", "depth": 3}]);
    let answer = json!({"id": "a", "role": "assistant", "content": content, "source": source});
    let said =
        json!({"turn": 1, "step": 1, "message": answer, "usage": {"inputTokens": 5, "outputTokens": 7}});
    let events = vec![
        BatchEvent::new("turn/start", json!({"turn": 1})),
        BatchEvent::new("step/start", json!({"turn": 1, "step": 1})),
        BatchEvent::new("assistant/message", said).on_surface(SurfaceOp::Append),
        BatchEvent::new("own/note", json!([1.50])),
    ];
    client.append_batch(AppendBatchParams::new("session-1", events)).await.unwrap();
    let failed = json!({"turn": 1, "reason": {"kind": "error", "error": {"message": "m", "code": "C", "requestId": "r"}}});
    client
        .append(AppendParams::new("session-1", BatchEvent::new("step/end", json!({"turn": 1, "step": 1}))))
        .await
        .unwrap();
    client.append(AppendParams::new("session-1", BatchEvent::new("turn/end", failed))).await.unwrap();
    let edited = json!({"id": "s", "role": "user", "content": [{"type": "text", "text": "short"}], "source": {"kind": "plugin", "plugin": "compaction"}});
    let summary =
        BatchEvent { source_event_seqs: Some(json!([2]).into()), ..BatchEvent::new("user/message", edited) };
    let summary = summary.on_surface(SurfaceOp::Replace { start: 2, end: 2 });
    client.append(AppendParams::new("session-1", summary)).await.unwrap();

    let events = client.events(EventsParams::of("session-1")).await.unwrap().read_events().unwrap();
    assert_eq!(events.iter().map(|event| event.seq).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6]);
    let Payload::AssistantMessage(said) = Payload::of(&events[2]) else { panic!("{:?}", events[2]) };
    assert_eq!((said.place.step, said.usage.unwrap().output_tokens), (1, 7));
    let [ContentBlock::Text { text }, ContentBlock::ToolCall { name, .. }, ContentBlock::Other(other)] =
        &*said.message.content
    else {
        panic!("{:?}", said.message)
    };
    assert_eq!((&**text, &**name, &other["depth"]), ("hi", "read", &json!(3)));
    assert_eq!((Payload::of(&events[3]), events[3].data.text()), (Payload::Other, "[1.5]"));
    let Payload::TurnEnd(end) = Payload::of(&events[5]) else { panic!("{:?}", events[5]) };
    let TurnEndReason::Error { error } = end.reason else { panic!("{end:?}") };
    assert_eq!(error.request_id.as_deref(), Some("r"));
    assert_eq!(events[6].surface_op, Some(SurfaceOp::Replace { start: 2, end: 2 }));

    let messages = client.messages(MessagesParams::of("session-1")).await.unwrap().read_messages().unwrap();
    let [message] = &*messages else { panic!("{messages:?}") };
    assert_eq!((&*message.id, &*message.source.kind), ("s", "plugin"));
    assert_eq!(message.source.facts["plugin"], "compaction");
    assert_eq!(message.content, [ContentBlock::Text { text: "short".to_owned() }]);

    let refused = client.info(SessionParams::of("nobody")).await.unwrap_err();
    assert_eq!(refused.code(), Some(Code::SessionNotFound));
    assert!(client.shut_down().await.unwrap().is_none());
    assert!(child.wait().await.unwrap().success());
    let mut told = Vec::new();
    while let Some(Notification::Event(notice)) = notifications.next().await {
        told.push(notice.read_event().unwrap().kind);
    }
    assert_eq!(told, events.into_iter().map(|event| event.kind).collect::<Vec<_>>());
}
