//! What a client asks for next: requests made from small random numbers and from what it believes to be live.

use serde_json::{Value, json};

use super::client::Client;
use super::ledger::{Stamp, one};

/// A request that was sent, as far as its answer must be judged.
#[derive(Clone, Debug)]
pub enum Errand {
    New {
        name: String,
    },
    Append(Append),
    Fork {
        parent: String,
        child: String,
    },
    Load {
        name: String,
    },
    Close {
        name: String,
    },
    Delete {
        name: String,
    },
    /// Answered not before this seq is durable.
    Flush {
        name: String,
        through: Option<u64>,
    },
    Inspect {
        name: String,
    },
    Read {
        name: String,
    },
    List,
}

impl Errand {
    /// The session that it is about.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::New { name }
            | Self::Fork { child: name, .. }
            | Self::Load { name }
            | Self::Close { name }
            | Self::Delete { name }
            | Self::Flush { name, .. }
            | Self::Inspect { name }
            | Self::Read { name } => Some(name),
            Self::Append(append) => Some(&append.name),
            Self::List => None,
        }
    }

    pub fn verb(&self) -> &'static str {
        match self {
            Self::New { .. } => "new",
            Self::Append(_) => "append",
            Self::Fork { .. } => "fork",
            Self::Load { .. } => "load",
            Self::Close { .. } => "close",
            Self::Delete { .. } => "delete",
            Self::Flush { .. } => "flush",
            Self::Inspect { .. } => "inspect",
            Self::Read { .. } => "events",
            Self::List => "list",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Append {
    pub name: String,
    /// The seq that the first event must get, if it is known.
    pub at: Option<u64>,
    /// The events as they were sent, and the numbers of the notes among them (by index).
    pub events: Vec<Value>,
    pub notes: Vec<(usize, u64)>,
    pub conditional: bool,
    pub durable: bool,
    pub retry: bool,
}

#[derive(Clone, Debug)]
pub struct Asked {
    pub sent: Stamp,
    pub what: Errand,
}

/// What a client believes of a session that is live in its daemon.
#[derive(Clone, Default)]
pub struct Live {
    /// Whether the rest is known, or must be asked for.
    pub known: bool,
    pub next: u64,
    pub turns: u64,
    pub in_turn: bool,
}

/// Sessions that a client keeps open.
const MOST_LIVE: usize = 8;
/// Events after which a session is left alone.
const LONG: u64 = 3_000;

impl Client {
    /// One request, seldom two.
    pub(super) fn plan_one(&mut self) {
        let roll = self.random.below(100);
        let own = self.any_live();
        match (roll, own) {
            (0..=7, _) | (_, None) if self.live.len() < MOST_LIVE => self.plan_new(),
            (8..=9, _) if self.live.len() < MOST_LIVE => self.plan_race(),
            (10..=14, Some(name)) if self.live.len() < MOST_LIVE => self.plan_fork(&name),
            (15..=24, _) if self.live.len() < MOST_LIVE => self.plan_load(),
            (25..=31, Some(name)) => self.plan_close(&name),
            (32..=33, own) => self.plan_delete(own),
            (34..=37, _) => {
                if let Some(name) = self.any_stored() {
                    self.ask("session/inspect", json!({"sessionId": name}), Errand::Inspect { name });
                }
            }
            (38, _) => self.ask("session/list", json!({"includeEmpty": true}), Errand::List),
            (39..=42, Some(name)) => {
                let through = Some(&self.live[&name])
                    .filter(|live| live.known)
                    .and_then(|live| live.next.checked_sub(1));
                self.ask("session/flush", json!({"sessionId": name}), Errand::Flush { name, through });
            }
            (43..=45, Some(name)) => {
                let from = self.random.below(self.live[&name].next as usize + 1);
                self.ask(
                    "session/events",
                    json!({"sessionId": name, "fromSeq": from, "limit": 200}),
                    Errand::Read { name },
                );
            }
            (46..=48, Some(name)) if self.live[&name].next > 0 => {
                self.plan_close(&name);
                self.open(name);
            }
            (_, Some(name)) => self.plan_append(&name),
            _ => {}
        }
    }

    fn any_live(&mut self) -> Option<String> {
        let count = self.live.len();
        (count > 0).then(|| self.live.keys().nth(self.random.below(count)).unwrap().clone())
    }

    /// A stored session that is not live here.
    fn any_stored(&mut self) -> Option<String> {
        let names: Vec<String> =
            self.ledger.stored().into_iter().filter(|name| !self.live.contains_key(name)).collect();
        (!names.is_empty()).then(|| names[self.random.below(names.len())].clone())
    }

    fn plan_new(&mut self) {
        let name = format!("s{}", self.ledger.number());
        self.make(name);
    }

    /// An id that another client may be making, too.
    fn plan_race(&mut self) {
        let number = self.ledger.count.requests.load(std::sync::atomic::Ordering::Relaxed) / 60;
        let round = self.ledger.round.load(std::sync::atomic::Ordering::Relaxed);
        let name = format!("race-{round}-{number}");
        if !self.live.contains_key(&name) && !self.raced.contains(&name) {
            self.raced.insert(name.clone());
            self.make(name);
        }
    }

    fn make(&mut self, name: String) {
        self.ask("session/new", json!({"sessionId": name, "cwd": "/w"}), Errand::New { name: name.clone() });
        self.live.insert(name.clone(), Live { known: true, ..Live::default() });
        self.plan_append(&name);
    }

    fn plan_fork(&mut self, parent: &str) {
        let live = &self.live[parent];
        if !live.known || live.next == 0 {
            return;
        }
        let child = format!("f{}", self.ledger.number());
        let mut params = json!({"sessionId": parent, "childSessionId": child, "onOpenTurn": "clip"});
        if self.random.chance(50) {
            let next = self.live[parent].next;
            params["boundary"] = json!(self.random.below(next as usize));
        }
        self.ask("session/fork", params, Errand::Fork { parent: parent.to_owned(), child: child.clone() });
        self.live.insert(child.clone(), Live::default());
        if self.random.chance(50) {
            self.plan_append(&child);
        }
    }

    fn plan_load(&mut self) {
        // Rather what a kill has left in doubt.
        let doubt =
            self.in_doubt.iter().map(|append| append.name.clone()).find(|name| !self.live.contains_key(name));
        let doubt = doubt.filter(|_| self.random.chance(50));
        if let Some(name) = doubt.or_else(|| self.any_stored()) {
            self.open(name.clone());
            if self.random.chance(50) {
                self.plan_append(&name);
            }
        }
    }

    /// Loads a session, and asks again for what had no answer when an earlier daemon was killed.
    fn open(&mut self, name: String) {
        let method = if self.random.chance(50) { "session/load" } else { "session/resume" };
        self.ask(method, json!({"sessionId": name}), Errand::Load { name: name.clone() });
        self.live.insert(name.clone(), Live::default());
        for mut append in std::mem::take(&mut self.in_doubt) {
            if append.name == name && append.at.is_some() {
                append.retry = true;
                append.conditional = true;
                one(&self.ledger.count.retries);
                self.send_append(append);
            } else {
                self.in_doubt.push(append);
            }
        }
    }

    pub(super) fn plan_close(&mut self, name: &str) {
        self.live.remove(name);
        self.ask("session/close", json!({"sessionId": name}), Errand::Close { name: name.to_owned() });
    }

    fn plan_delete(&mut self, own: Option<String>) {
        let own = own.filter(|_| self.random.chance(50));
        let Some(name) = own.or_else(|| self.any_stored()) else { return };
        // Two may be making it: after its deletion the other may make it again.
        if name.starts_with("race-") {
            return;
        }
        self.live.remove(&name);
        self.ask("session/delete", json!({"sessionId": name}), Errand::Delete { name });
    }

    fn plan_append(&mut self, name: &str) {
        let mut live = self.live[name].clone();
        if live.next > LONG {
            return self.plan_close(name);
        }
        let at = live.known.then_some(live.next);
        let count = if self.random.chance(70) { 1 } else { 1 + self.random.below(8) };
        let (mut events, mut notes) = (Vec::new(), Vec::new());
        for index in 0..count {
            events.push(match self.random.below(100) {
                0..=9 if live.known && live.in_turn => {
                    live.in_turn = false;
                    json!({"type": "turn/end", "data": {"turn": live.turns, "reason": {"kind": "completed"}}})
                }
                0..=9 if live.known => {
                    (live.in_turn, live.turns) = (true, live.turns + 1);
                    json!({"type": "turn/start", "data": {"turn": live.turns}})
                }
                _ => {
                    let size = if self.random.chance(2) { 30_000 } else { self.random.below(200) };
                    let number = self.ledger.number();
                    notes.push((index, number));
                    let data = json!({"n": number, "s": name, "pad": "p\u{2028}".repeat(size / 4)});
                    json!({"type": "x/note", "data": data, "ignorable": true})
                }
            });
        }
        live.next += count as u64;
        self.live.insert(name.to_owned(), live);
        let (conditional, durable) = (at.is_some() && self.random.chance(50), self.random.chance(8));
        self.send_append(Append {
            name: name.to_owned(),
            at,
            events,
            notes,
            conditional,
            durable,
            retry: false,
        });
    }

    fn send_append(&mut self, append: Append) {
        let batch = append.events.len() > 1;
        let mut params = if batch { json!({"events": append.events}) } else { append.events[0].clone() };
        params["sessionId"] = json!(append.name);
        if append.conditional {
            params["expectedSeq"] = json!(append.at);
        }
        if append.durable {
            params["durable"] = json!(true);
        }
        let method = if batch { "session/append_batch" } else { "session/append" };
        self.ask(method, params, Errand::Append(append));
    }

    fn ask(&mut self, method: &str, params: Value, what: Errand) {
        let line = json!({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params});
        self.next_id += 1;
        self.pipe.push_str(&format!("{line}\n"));
        one(&self.ledger.count.requests);
        self.asked.push(Asked { sent: self.ledger.stamp(), what });
    }
}
