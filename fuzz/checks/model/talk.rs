//! The conversation with the store: requests as lines, and what comes back.

use sessiond::disk::paths::Encoding;
use sessiond::disk::read::damage::Refused;
use sessiond::disk::read::reader::{ReadLimits, Sink, StoredEvent, read_log};
use sessiond::log::{Header, Log, Offset, SessionId, header_line};
use sessiond::server::{Server, Settings};
use sessiond::session::Limits;
use sessiond::store::MemoryStorage;

use super::super::plain::{member, parts};
use super::log::Event;
use super::rules::{MAX_BATCH, MAX_DEPTH, MAX_EVENT_BYTES, OPTIONAL, REQUIRED, Wanted};

/// When the clock begins.
const BEGIN: i64 = 1_700_000_000_000;

/// A server in this process over a store in memory.
pub struct Talk {
    server: Server,
    requests: u64,
    /// The latest time that an event was given.
    pub time: i64,
}

/// A response, and the notifications around it.
pub struct Answer {
    pub line: String,
    /// Where the result stands in the line.
    result: Option<std::ops::Range<usize>>,
    pub before: Vec<String>,
    pub after: Vec<String>,
    pub is_batch: bool,
}

impl Talk {
    pub fn begin() -> Self {
        let settings = Settings {
            clock: format!("fixed:{BEGIN}+1").parse().unwrap(),
            ids: "sequential".parse().unwrap(),
            limits: Limits {
                max_depth: MAX_DEPTH as u32,
                max_event_bytes: MAX_EVENT_BYTES,
                max_batch_events: MAX_BATCH,
                ..Limits::default()
            },
            ..Settings::default()
        };
        let server = Server::new(settings, Box::new(MemoryStorage::default()));
        let mut talk = Self { server, requests: 0, time: BEGIN };
        let types = format!("[{{\"type\":\"{REQUIRED}\",\"required\":true}},{{\"type\":\"{OPTIONAL}\"}}]");
        let capabilities = format!("{{\"_meta\":{{\"sessiond\":{{\"eventTypes\":{types}}}}}}}");
        let params = format!("{{\"protocolVersion\":1,\"clientCapabilities\":{capabilities}}}");
        talk.call("initialize", &params).expect_ok().assert_alone();
        talk
    }

    /// A request and all that comes back for it: one response, and notifications.
    pub fn call(&mut self, method: &str, params: &str) -> Answer {
        self.requests += 1;
        let id = self.requests;
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}");
        self.server.receive(line.as_bytes());
        self.server.settle();
        while self.server.has_more() {
            self.server.advance();
        }
        assert!(self.server.is_idle(), "something waits after {line}");
        let output = self.server.output().map(std::mem::take).unwrap_or_default();
        let lines: Vec<&str> = output.lines().collect();
        let head = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},");
        let places: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].starts_with(&head)).collect();
        let [place] = places[..] else { panic!("{} responses to {line}: {output}", places.len()) };
        let owned = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
        let (before, after) = (owned(&lines[..place]), owned(&lines[place + 1..]));
        for line in before.iter().chain(&after) {
            assert!(member(line, "method").is_some() && member(line, "id").is_none(), "{line}");
        }
        let line = lines[place].to_owned();
        let result = member(&line, "result").map(|result| {
            let start = result.as_ptr().addr() - line.as_ptr().addr();
            start..start + result.len()
        });
        Answer { line, result, before, after, is_batch: method == "session/append_batch" }
    }

    /// The time of an event.
    pub fn time_of(&mut self, id: &str, seq: usize) -> i64 {
        let params = format!("{{\"sessionId\":\"{id}\",\"fromSeq\":{seq}}}");
        let page = self.call("session/events", &params);
        let events = array(page.expect_ok().result(), "events");
        let time = member(events.first().expect("the event"), "time").unwrap().parse().unwrap();
        assert!(time >= self.time);
        self.time = time;
        time
    }
}

impl Answer {
    pub fn is_ok(&self) -> bool {
        self.result.is_some()
    }

    pub fn expect_ok(&self) -> &Self {
        assert!(self.is_ok(), "refused: {}", self.line);
        self
    }

    /// The result's text.
    pub fn result(&self) -> &str {
        let range = self.result.clone().unwrap_or_else(|| panic!("refused: {}", self.line));
        &self.line[range]
    }

    /// Nothing was told beside the response.
    pub fn assert_alone(&self) {
        assert!(self.before.is_empty() && self.after.is_empty(), "{:?} {:?}", self.before, self.after);
    }

    /// These notifications came after the response, and none before it.
    pub fn assert_followed_by(&self, methods: &[&str]) {
        assert!(self.before.is_empty(), "{:?}", self.before);
        let told: Vec<&str> =
            self.after.iter().map(|line| member(line, "method").unwrap().trim_matches('"')).collect();
        assert_eq!(told, methods);
    }

    /// The stable name of the error and the rule, where it is one of a rule.
    pub fn refusal(&self) -> (&str, &str) {
        let data = member(&self.line, "error").and_then(|error| member(error, "data"));
        let data = data.unwrap_or_else(|| panic!("accepted: {}", self.line));
        let text = |name| member(data, name).map_or("", |text| text.trim_matches('"'));
        (text("code"), text("rule"))
    }

    /// The index in a batch or seed that a refusal names.
    pub fn index(&self) -> Option<usize> {
        let data = member(&self.line, "error").and_then(|error| member(error, "data"))?;
        member(data, "index").map(|index| index.parse().unwrap())
    }

    pub fn number(&self, name: &str) -> i64 {
        member(self.result(), name).unwrap_or_else(|| panic!("no {name}: {}", self.line)).parse().unwrap()
    }

    /// A number, or what stands for null.
    pub fn number_or(&self, name: &str, null: i64) -> i64 {
        member(self.result(), name).and_then(|text| text.parse().ok()).unwrap_or(null)
    }

    pub fn flag(&self, name: &str) -> bool {
        member(self.result(), name) == Some("true")
    }

    pub fn maybe_text(&self, name: &str) -> Option<String> {
        member(self.result(), name).map(|text| serde_json::from_str(text).unwrap())
    }

    pub fn text(&self, name: &str) -> String {
        self.maybe_text(name).unwrap_or_else(|| panic!("no {name}: {}", self.line))
    }
}

/// The elements of an array in a result, as texts.
pub fn array<'a>(result: &'a str, name: &str) -> Vec<&'a str> {
    parts(member(result, name).unwrap_or_else(|| panic!("no {name}: {result}")))
}

fn announced<'a>(line: &'a str, name: &str) -> &'a str {
    let event = member(member(line, "params").unwrap(), "event").unwrap();
    member(event, name).unwrap()
}

/// The time of the event that a notification tells.
pub fn announced_time(line: &str) -> i64 {
    announced(line, "time").parse().unwrap()
}

/// The id of the message in the event that a notification tells.
pub fn announced_id(line: &str) -> Option<String> {
    let data = announced(line, "data");
    let message = member(data, "message").unwrap_or(data);
    serde_json::from_str(member(message, "id")?).ok()
}

/// A committed event as a seed gives it.
pub fn kept(event: &Event) -> Wanted {
    let Event { name, data, op, sources, ignorable, .. } = event.clone();
    Wanted { name, data, op, sources, ignorable: ignorable.then_some("true"), spelled: None }
}

/// Takes the events of a stored log as they are.
#[derive(Default)]
struct Kept(Log);

impl Sink for Kept {
    fn event(&mut self, event: &StoredEvent<'_>) -> Result<(), Refused> {
        assert!(!event.changed, "{}", event.row.text());
        self.0.push(event.draft, event.time);
        Ok(())
    }
}

/// A plain log of these lines reads back to them.
pub fn assert_reads_back(id: &str, inherited: usize, lines: &[&str]) {
    let header = Header {
        id: SessionId::new(id).unwrap(),
        created_at: 0,
        cwd: None,
        parent_session: None,
        is_seeded: inherited > 0,
        subagent: false,
        delegation_depth: None,
        agent_preset: None,
    };
    let mut text = header_line(&header, Offset::new(inherited as u64).unwrap());
    if !text.ends_with('\n') {
        text.push('\n');
    }
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    let mut sink = Kept::default();
    let bytes = text.as_bytes();
    let scan =
        read_log(&bytes, bytes.len() as u64, Encoding::Plain, ReadLimits::default(), &mut sink).unwrap();
    assert!(scan.problems.is_empty() && scan.torn.is_none(), "{:?}", scan.problems);
    let back: Vec<&str> = sink.0.iter().map(|event| event.line()).collect();
    assert_eq!(back, lines);
}
