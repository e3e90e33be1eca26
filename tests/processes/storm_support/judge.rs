//! Whether an answer may be what it is, after all that its client and all others were told.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::client::{Client, Open};
use super::errand::{Asked, Errand};
use super::ledger::{Window, one};
use super::reader::{digest, event};
use super::wire::WireError;

#[derive(Deserialize)]
struct Page<'a> {
    #[serde(borrow)]
    events: Vec<&'a RawValue>,
}

/// What the refusals of a burst leave open for its later answers.
#[derive(Default)]
struct Burst {
    /// Sessions that did not become live.
    shut: BTreeSet<String>,
    /// Sessions whose length is not what was planned with.
    doubtful: BTreeSet<String>,
}

impl Client {
    /// Holds the answers of a burst against what was asked, in the order of asking.
    pub(super) fn judge(&mut self) {
        let asked = std::mem::take(&mut self.asked);
        let mut answers = std::mem::take(&mut self.answers);
        let mut burst = Burst::default();
        for (index, asked) in asked.into_iter().enumerate() {
            match answers.remove(&(self.first_id + index as u64)) {
                None => self.unanswered(asked),
                Some((stamp, line)) => {
                    let window = Window { life: self.life, from: asked.sent, to: stamp };
                    self.trace(&asked.what, line.error.as_ref(), window);
                    match (line.result, line.error) {
                        (Some(result), None) => self.granted(asked.what, &result, window, &mut burst),
                        (None, Some(error)) => self.refused(asked.what, &error, window, &mut burst),
                        _ => panic!("neither a result nor an error"),
                    }
                }
            }
        }
        self.first_id = self.next_id;
        self.announced.clear();
        for name in burst.doubtful {
            if let Some(live) = self.live.get_mut(&name) {
                live.known = false;
            }
        }
    }

    fn trace(&self, what: &Errand, error: Option<&WireError>, window: Window) {
        let Some(name) = what.name() else { return };
        let Window { life, from, to } = window;
        let error = error.map_or("", |error| error.data.code.as_str());
        let faults = if self.faulty { self.fault } else { "" };
        let line = format!("daemon {life}, {from}..{to}: {} {error} {faults}", what.verb());
        self.ledger.with(name, |record| record.note(line));
    }

    fn unanswered(&mut self, asked: Asked) {
        one(&self.ledger.count.unanswered);
        let window = Window { life: self.life, from: asked.sent, to: self.ledger.stamp() };
        match asked.what {
            Errand::Append(append) => {
                self.ledger.with(&append.name, |record| record.held.push(window));
                // Without expectedSeq its place is a guess, and asking again would not be safe.
                if append.conditional {
                    self.in_doubt.push(append);
                }
            }
            Errand::Delete { name } => {
                self.perhaps_gone(&name, window);
                self.ledger.with(&name, |record| record.deletes.push(window));
            }
            Errand::Close { name } => self.perhaps_gone(&name, window),
            Errand::Load { name } | Errand::Inspect { name } | Errand::Fork { child: name, .. } => {
                self.ledger.with(&name, |record| record.held.push(window));
            }
            _ => {}
        }
    }

    /// It may have been let go of since, or be in this daemon's hands still.
    fn perhaps_gone(&mut self, name: &str, window: Window) {
        self.ledger.with(name, |record| record.held.push(window));
        if let Some(open) = self.opens.get_mut(name) {
            let was = *open;
            open.surely = None;
            self.let_go(name, was, window.from, window.to);
        }
    }

    fn own(&mut self, name: &str, window: Window) {
        let open = Open { surely: Some(window.to), perhaps: window.from };
        self.opens.entry(name.to_owned()).or_insert(open);
        self.ledger.with(name, |record| {
            record.stored_at.get_or_insert(window.to);
        });
    }

    fn granted(&mut self, what: Errand, result: &RawValue, window: Window, burst: &mut Burst) {
        let value = || -> Value { serde_json::from_str(result.get()).unwrap() };
        match what {
            Errand::New { .. } => {}
            Errand::Append(append) => {
                let value = value();
                let first = value["seq"].as_u64().or(value["firstSeq"].as_u64()).unwrap();
                let name = &append.name;
                let sure = append.conditional || !burst.doubtful.contains(name);
                assert!(!sure || append.at.is_none_or(|at| at == first), "{append:?}: at {first}");
                if value["duplicate"] == true {
                    assert!(append.retry, "{append:?}: a duplicate of what was never sent before");
                    one(&self.ledger.count.duplicates);
                } else {
                    for (index, note) in &append.notes {
                        let place = first + *index as u64;
                        let told = self.announced.get(note);
                        let part = append.retry && told.is_none(); // a batch, a prefix of which was there
                        assert!(part || told == Some(&place), "{append:?}: announced at {told:?}");
                    }
                }
                self.own(name, window);
            }
            Errand::Fork { child, .. } => {
                one(&self.ledger.count.forks);
                let value = value();
                let length = value["boundary"].as_u64().map_or(0, |seq| seq + 1) as usize;
                assert_eq!(value["inheritedEventCount"], length, "{child}");
                let parent = value["header"]["parentSession"].as_str().unwrap().to_owned();
                self.ledger.with(&child, |record| record.fork = Some((parent, length)));
                self.own(&child, window);
            }
            Errand::Load { name } => {
                // An earlier request of this burst may have failed, and this one made it live all the same.
                self.live.entry(name.clone()).or_default();
                self.own(&name, window);
                self.ledger.with(&name, |record| record.opened.push(window));
            }
            Errand::Close { name } => self.closed(&name, window),
            Errand::Delete { name } => {
                one(&self.ledger.count.deletes);
                self.closed(&name, window);
                self.ledger.with(&name, |record| {
                    record.deletes.push(window);
                    record.deleted.push(window);
                    record.held.push(window);
                    record.gone_at.get_or_insert(window.to);
                });
            }
            Errand::Flush { name, through } => {
                let durable = value()["durableSeq"].as_u64();
                let known = through.filter(|_| !burst.doubtful.contains(&name));
                assert!(durable >= known, "{name}: flushed through {durable:?} of {known:?}");
            }
            Errand::Inspect { name } => {
                self.ledger.with(&name, |record| record.held.push(window));
                self.compare(&name, result);
            }
            Errand::Read { name } => self.compare(&name, result),
            Errand::List => self.judge_list(&value(), window),
        }
    }

    fn closed(&mut self, name: &str, window: Window) {
        self.live.remove(name); // until a later request of this burst has loaded it again
        if let Some(open) = self.opens.remove(name) {
            self.let_go(name, open, window.from, window.to);
        }
    }

    /// What a read shows is what was announced, by whichever daemon.
    fn compare(&self, name: &str, page: &RawValue) {
        let page: Page<'_> = serde_json::from_str(page.get()).unwrap();
        let mut next = None;
        self.ledger.with(name, |record| {
            for text in page.events {
                let (seq, _) = event(text.get().as_bytes()).expect("an event");
                assert!(next.is_none_or(|next| next == seq), "{name}: {seq} comes out of order");
                next = Some(seq + 1);
                let told = record.told.get(seq).copied().flatten();
                let same = told.is_none_or(|told| told == digest(text.get().as_bytes()));
                assert!(same, "{name}: event {seq} is read as {}", text.get());
            }
        });
    }

    fn judge_list(&self, list: &Value, window: Window) {
        let rows = list["sessions"].as_array().unwrap();
        let mut listed = BTreeSet::new();
        for row in rows {
            let name = row["sessionId"].as_str().unwrap();
            assert!(self.faulty || row["status"] == "ok", "{row}");
            assert!(listed.insert(name), "{name} is listed twice");
        }
        if list["nextCursor"].is_string() {
            return;
        }
        for (name, record) in self.ledger.sessions().iter() {
            let there = record.stored_at.is_some_and(|stored| stored < window.from);
            let gone = record.deletes.iter().any(|delete| delete.from < window.to);
            // A delete that is under way is not known yet.
            if there && !gone && !listed.contains(name.as_str()) {
                assert!(self.faulty || self.is_being_deleted(name), "{name} is not listed");
            }
            let after = record.gone_at.is_some_and(|gone| gone < window.from);
            assert!(!after || !listed.contains(name.as_str()), "{name} is deleted and listed");
        }
    }

    /// Whether its files are away by now.
    fn is_being_deleted(&self, name: &str) -> bool {
        !self.store.join("--w--").join(name).join("session.jsonl").exists()
    }

    fn refused(&mut self, what: Errand, error: &WireError, window: Window, burst: &mut Burst) {
        one(&self.ledger.count.refused);
        let code = error.data.code.as_str();
        let breach = || panic!("{what:?}: {error:?}");
        if code == "STORAGE_FAILED" {
            one(&self.ledger.count.storage_failed);
            assert!(self.faulty, "{what:?}: {error:?}");
        }
        match &what {
            Errand::Append(append) => {
                let name = &append.name;
                let committed = error.data.committed == Some(true);
                match code {
                    "STORAGE_FAILED" => {}
                    "SESSION_NOT_FOUND" if burst.shut.contains(name) => {}
                    "SEQ_CONFLICT" if append.retry || burst.doubtful.contains(name) => {}
                    // What was never answered may be lost, and a repair's closers may take its very places.
                    "INVARIANT_VIOLATION" if append.retry || burst.doubtful.contains(name) => {}
                    "SESSION_ALREADY_EXISTS" if name.starts_with("race-") => {
                        one(&self.ledger.count.lost_races);
                        self.live.remove(name);
                        self.must_close.insert(name.clone());
                    }
                    _ => breach(),
                }
                burst.doubtful.insert(name.clone());
                if !append.retry && !committed {
                    let announced = append.notes.iter().find(|(_, note)| self.announced.contains_key(note));
                    assert!(announced.is_none(), "{append:?}: refused and announced");
                    let notes = append.notes.iter().map(|(_, note)| *note);
                    self.ledger.with(name, |record| record.refused.extend(notes));
                }
                if committed {
                    self.own(name, window);
                }
            }
            Errand::New { name } => {
                if code != "STORAGE_FAILED"
                    && !(code == "SESSION_ALREADY_EXISTS" && name.starts_with("race-"))
                {
                    breach();
                }
                burst.shut.insert(name.clone());
                self.live.remove(name);
            }
            Errand::Fork { parent, child } => {
                match code {
                    "STORAGE_FAILED" => {}
                    "SESSION_NOT_FOUND" if burst.shut.contains(parent) => {}
                    "INVALID_BOUNDARY" if burst.doubtful.contains(parent) => {}
                    _ => breach(),
                }
                self.ledger.with(child, |record| record.held.push(window));
                burst.shut.insert(child.clone());
                self.live.remove(child);
            }
            Errand::Load { name } => {
                self.miss(name, code, window, error);
                burst.shut.insert(name.clone());
                self.live.remove(name);
            }
            Errand::Inspect { name } => self.miss(name, code, window, error),
            Errand::Close { name } => {
                // It stays live until it can be promised.
                assert_eq!(code, "STORAGE_FAILED", "{what:?}: {error:?}");
                self.must_close.insert(name.clone());
            }
            Errand::Delete { name } => {
                match code {
                    "SESSION_LOCKED" => self.miss(name, code, window, error),
                    "STORAGE_FAILED" => self.ledger.with(name, |record| {
                        record.deletes.push(window);
                        record.held.push(window);
                    }),
                    _ => breach(),
                }
                if self.opens.contains_key(name) {
                    self.perhaps_gone(name, window);
                    self.must_close.insert(name.clone());
                }
            }
            Errand::Flush { name, .. } | Errand::Read { name } => {
                if code != "STORAGE_FAILED" && !(code == "SESSION_NOT_FOUND" && burst.shut.contains(name)) {
                    breach();
                }
            }
            Errand::List => assert_eq!(code, "STORAGE_FAILED", "{what:?}: {error:?}"),
        }
    }

    /// A session that could not be had.
    fn miss(&self, name: &str, code: &str, window: Window, error: &WireError) {
        self.ledger.with(name, |record| {
            record.held.push(window);
            match code {
                "SESSION_LOCKED" => {
                    one(&self.ledger.count.locked);
                    record.locked.push(window);
                }
                "SESSION_NOT_FOUND" => record.absent.push(window),
                "STORAGE_FAILED" => {}
                _ => panic!("{name}: {error:?}"),
            }
        });
    }
}
