//! Are the pages of a list, put together, all sessions in their order, whatever was opened, changed, closed and deleted?

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::{Value, json};
use sessiond::disk::fs::record::RecordingFs;
use sessiond::server::{Clock, IdSource, Server, Settings};
use sessiond::store::MemoryStorage;
use tokio::runtime::Runtime;

use crate::dur_support::local::{Local, runtime};

static RUNTIME: LazyLock<Arc<Runtime>> = LazyLock::new(runtime);

/// What a list shows of a session, written down plainly.
#[derive(Clone, Debug)]
struct Shown {
    time: u64,
    empty: bool,
    live: bool,
    title: Option<String>,
}

enum Daemon {
    InMemory(Box<Server>),
    OnDisk(Box<Local>),
}

struct Bench {
    daemon: Daemon,
    sessions: BTreeMap<String, Shown>,
}

impl Bench {
    fn new(step: &str) -> Self {
        let settings = Settings {
            clock: format!("fixed:1700000000000+{step}").parse::<Clock>().unwrap(),
            ids: "sequential".parse::<IdSource>().unwrap(),
            ..Settings::default()
        };
        let server = Server::new(settings, Box::new(MemoryStorage::default()));
        Self { daemon: Daemon::InMemory(Box::new(server)), sessions: BTreeMap::new() }
    }

    fn on_disk() -> Self {
        let local = Local::new(Arc::new(RecordingFs::new()), &RUNTIME);
        Self { daemon: Daemon::OnDisk(Box::new(local)), sessions: BTreeMap::new() }
    }

    fn by_the_system_clock(fs: Option<RecordingFs>) -> Self {
        let settings = Settings { clock: Clock::System, ..Settings::default() };
        let daemon = match fs {
            None => Daemon::InMemory(Box::new(Server::new(settings, Box::new(MemoryStorage::default())))),
            Some(fs) => Daemon::OnDisk(Box::new(Local::with(Arc::new(fs), &RUNTIME, settings))),
        };
        Self { daemon, sessions: BTreeMap::new() }
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let server = match &mut self.daemon {
            Daemon::InMemory(server) => server,
            Daemon::OnDisk(local) => {
                return match local.call(method, params.clone()) {
                    Ok(result) => json!({ "result": result }),
                    Err(error) => json!({ "error": error }),
                };
            }
        };
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
        server.receive(line.as_bytes());
        while server.has_more() || !server.is_idle() {
            server.advance();
        }
        let said = std::mem::take(server.output().unwrap());
        let mut answers = said
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|line| line["id"] == 1);
        answers.next().unwrap()
    }

    /// Opens, changes, closes, or deletes a session.
    fn act(&mut self, (what, which): (u8, u8)) {
        let id = format!("s{}", which % 7);
        let append = |kind: &str, data: Value| json!({"sessionId": id, "type": kind, "data": data});
        let time = |answer: &Value, member: &str| answer["result"][member].as_u64().unwrap();
        match (what % 9, self.sessions.get_mut(&id)) {
            (0, None) => {
                let made = self.ask("session/new", &json!({"sessionId": id}));
                let time = made["result"]["header"]["createdAt"].as_u64().unwrap();
                self.sessions.insert(id, Shown { time, empty: true, live: true, title: None });
            }
            (1..=3, Some(Shown { live: true, .. })) => {
                let answer = self.ask("session/append", &append("plan/mode", json!({"n": which})));
                let shown = self.sessions.get_mut(&id).unwrap();
                (shown.time, shown.empty) = (time(&answer, "time"), false);
            }
            (4, Some(Shown { live: true, .. })) => {
                let title = format!("title {which}");
                let data = json!({"title": title, "messageSeqs": [], "source": {"kind": "user"}});
                assert!(self.ask("session/append", &append("session/title", data))["result"].is_object());
                let shown = self.sessions.get_mut(&id).unwrap();
                (shown.title, shown.empty) = (Some(title), false);
            }
            // On disk nothing would be left of it.
            (5, Some(Shown { empty: true, .. })) if matches!(self.daemon, Daemon::OnDisk(_)) => {}
            (5, Some(shown @ Shown { live: true, .. })) => {
                shown.live = false;
                assert!(self.ask("session/close", &json!({"sessionId": id}))["result"].is_object());
            }
            (6, Some(shown)) => {
                shown.live = true;
                assert!(self.ask("session/load", &json!({"sessionId": id}))["result"].is_object());
            }
            (7, Some(_)) if which >= 128 => {
                self.sessions.remove(&id);
                assert!(self.ask("session/delete", &json!({"sessionId": id}))["result"].is_object());
            }
            (8, Some(Shown { live: true, .. })) => {
                // Refused, and changes nothing.
                assert!(
                    self.ask("session/append", &append("turn/end", json!({"turn": 9})))["error"].is_object()
                );
            }
            _ => {}
        }
    }

    fn assert_lists(&mut self, limit: u64, with_empty: bool) {
        let mut want: Vec<_> = self.sessions.iter().filter(|(_, shown)| with_empty || !shown.empty).collect();
        want.sort_by_key(|(id, shown)| std::cmp::Reverse((shown.time, (*id).clone())));
        let want: Vec<_> =
            want.into_iter().map(|(id, shown)| (id.clone(), shown.live, shown.title.clone())).collect();
        let (mut found, mut cursor) = (Vec::new(), Value::Null);
        loop {
            let mut params = json!({"limit": limit, "includeEmpty": with_empty});
            if !cursor.is_null() {
                params["cursor"] = cursor;
            }
            let page = self.ask("session/list", &params)["result"].clone();
            let rows = page["sessions"].as_array().unwrap();
            assert!(rows.len() as u64 <= limit);
            found.extend(rows.iter().map(|row| {
                let title = row["title"].as_str().map(str::to_owned);
                (row["sessionId"].as_str().unwrap().to_owned(), row["live"] == true, title)
            }));
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
            assert_eq!(rows.len() as u64, limit, "a page is full when there are more");
        }
        assert_eq!(found, want);
    }

    /// Pages the list while others act: every session that it held when it began is on one page, whatever became of it,
    /// in the order that they had then; and one that was made since is on none, where the clock moves.
    fn assert_pages_of_one_moment(&mut self, limit: u64, with_empty: bool, moves: bool, acts: &[(u8, u8)]) {
        let begun: Vec<String> = self.listed(&json!({"includeEmpty": with_empty})).0;
        let all: Vec<String> = self.sessions.keys().cloned().collect();
        let (mut found, mut cursor, mut acts) = (Vec::new(), Value::Null, acts.iter().cycle());
        loop {
            let mut params = json!({"limit": limit, "includeEmpty": with_empty});
            if !cursor.is_null() {
                params["cursor"] = cursor;
            }
            let (rows, next) = self.listed(&params);
            found.extend(rows);
            cursor = next;
            if cursor.is_null() {
                break;
            }
            for _ in 0..3 {
                let (what, which) = *acts.next().unwrap();
                // What is deleted is gone.
                if what % 9 != 7 {
                    self.act((what, which));
                }
            }
        }
        let (of_then, since): (Vec<_>, Vec<_>) = found.into_iter().partition(|id| begun.contains(id));
        assert_eq!(of_then, begun);
        let is_new = |id: &&String| !all.contains(id);
        assert!(!moves || !since.iter().any(|id| is_new(&id)), "{since:?}");
        assert!(since.iter().enumerate().all(|(at, id)| !since[..at].contains(id)), "{since:?}");
    }

    fn listed(&mut self, params: &Value) -> (Vec<String>, Value) {
        let page = self.ask("session/list", params)["result"].clone();
        let id = |row: &Value| row["sessionId"].as_str().unwrap().to_owned();
        (page["sessions"].as_array().unwrap().iter().map(id).collect(), page["nextCursor"].clone())
    }
}

/// What a client finds of `count` sessions that it pages by `limit`, first asking while an event of this very millisecond
/// has just been answered; meanwhile sessions that it has not seen, and such as it has, get events at once.
fn found_in_a_rush(bench: &mut Bench, count: usize, limit: usize, round: usize) -> Vec<String> {
    let note =
        |which: usize| json!({"sessionId": format!("s{}", which % count), "type": "plan/mode", "data": {}});
    assert!(bench.ask("session/append", &note(round))["result"].is_object());
    let (mut found, mut next) = bench.listed(&json!({"limit": limit}));
    for act in 0.. {
        if next.is_null() {
            return found;
        }
        // Of all sessions the one that is listed last, then others.
        let last = (0..count).rev().map(|back| (round + count - back) % count).nth(act % count);
        assert!(bench.ask("session/append", &note(last.unwrap()))["result"].is_object());
        let (rows, after) = bench.listed(&json!({"limit": limit, "cursor": next}));
        found.extend(rows);
        next = after;
    }
    unreachable!()
}

fn every_session_is_on_one_page_within_a_millisecond(mut bench: Bench) {
    const COUNT: usize = 5;
    let mut want: Vec<String> = (0..COUNT).map(|n| format!("s{n}")).collect();
    for id in &want {
        bench.ask("session/new", &json!({"sessionId": id}));
        bench.ask("session/append", &json!({"sessionId": id, "type": "plan/mode", "data": {}}));
    }
    want.sort();
    for round in 0..60 {
        for limit in 1..COUNT {
            let mut found = found_in_a_rush(&mut bench, COUNT, limit, round);
            found.sort();
            assert_eq!(found, want, "round {round}, {limit} a page");
        }
    }
}

#[test]
fn every_session_is_on_one_page_within_a_millisecond_in_memory() {
    every_session_is_on_one_page_within_a_millisecond(Bench::by_the_system_clock(None));
}

#[test]
fn every_session_is_on_one_page_within_a_millisecond_on_disk() {
    every_session_is_on_one_page_within_a_millisecond(Bench::by_the_system_clock(Some(RecordingFs::new())));
}

/// While the disk is looked at for a page, events go on.
#[test]
fn every_session_is_on_one_page_whatever_happens_while_the_disk_is_read() {
    let mut local = Local::new(Arc::new(RecordingFs::new()), &RUNTIME);
    let ids = ["a", "b", "c", "d", "e"];
    let note = |id: &str| json!({"sessionId": id, "type": "plan/mode", "data": {}});
    for id in ids {
        local.call("session/new", json!({"sessionId": id})).unwrap();
        local.call("session/append", note(id)).unwrap();
    }
    for of in 0..ids.len() {
        for (id, is_late) in ids.iter().flat_map(|id| [(id, false), (id, true)]) {
            // Of the page `of`, this one gets an event while it is made, or has lately been closed besides.
            let (mut found, mut cursor) = (Vec::new(), Value::Null);
            for page in 0.. {
                let list = ("session/list", json!({"limit": 1, "cursor": cursor}));
                let close = ("session/close", json!({"sessionId": id}));
                let requests = match (page == of, is_late) {
                    (false, _) => vec![list],
                    (true, false) => vec![list, ("session/append", note(id))],
                    (true, true) => vec![list, ("session/append", note(id)), close],
                };
                let answers = local.turn(&requests);
                let listed = answers[0].clone().unwrap();
                let rows = listed["sessions"].as_array().unwrap();
                found.extend(rows.iter().map(|row| row["sessionId"].as_str().unwrap().to_owned()));
                cursor = listed["nextCursor"].clone();
                if cursor.is_null() {
                    break;
                }
            }
            found.sort();
            assert_eq!(found, ids, "{id} while page {of} was made");
            local.call("session/load", json!({"sessionId": id})).unwrap();
        }
    }
}

type Acts = Vec<(u8, u8)>;

fn acts(most: usize) -> impl Strategy<Value = Acts> {
    prop::collection::vec(any::<(u8, u8)>(), 1..most)
}

fn pages_are_of_one_moment(mut bench: Bench, moves: bool, before: &Acts, meanwhile: &Acts, limit: u64) {
    before.iter().for_each(|act| bench.act(*act));
    for with_empty in [false, true] {
        bench.assert_pages_of_one_moment(limit, with_empty, moves, meanwhile);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_are_of_one_moment_in_memory(still: bool, before in acts(60), meanwhile in acts(40), limit in 1u64..4) {
        pages_are_of_one_moment(Bench::new(if still { "0" } else { "7" }), !still, &before, &meanwhile, limit);
    }

    #[test]
    fn pages_are_the_whole_list(same_time: bool, acts in prop::collection::vec(any::<(u8, u8)>(), 0..120), limit in 1u64..4) {
        // Where the clock stands still, ids alone tell sessions apart.
        let mut bench = Bench::new(if same_time { "0" } else { "7" });
        for (n, act) in acts.into_iter().enumerate() {
            bench.act(act);
            if n % 8 == 0 {
                bench.assert_lists(limit, n % 16 == 0);
            }
        }
        bench.assert_lists(limit, false);
        bench.assert_lists(limit, true);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_are_of_one_moment_on_disk(before in acts(60), meanwhile in acts(40), limit in 1u64..4) {
        pages_are_of_one_moment(Bench::on_disk(), true, &before, &meanwhile, limit);
    }
}
