//! The requests of a workload, built before anything is timed.

use crate::Suite;
use crate::process::{Contender, Process, Took};

/// How a conversation begins, and the part of it that is measured.
#[derive(Default)]
pub struct Script {
    /// Asked one after another before; a floor does not see them.
    pub opening: Vec<String>,
    /// Lines, each ended by a line feed.
    pub body: Vec<u8>,
    /// Where each request of the body ends.
    pub ends: Vec<usize>,
    /// Lines with which a store answers the body.
    pub lines: usize,
    /// What one operation is, so many are in the body.
    pub operations: usize,
}

impl Script {
    /// A request of the body that is answered with so many lines and is so many operations.
    pub fn push(&mut self, request: &str, lines: usize, operations: usize) {
        self.body.extend_from_slice(request.as_bytes());
        self.body.push(b'\n');
        self.ends.push(self.body.len());
        self.lines += lines;
        self.operations += operations;
    }

    pub fn bytes(&self) -> usize {
        self.body.len()
    }

    /// The requests of the body, `together` in a piece, and the lines that answer each piece.
    pub fn pieces(&self, together: usize, is_store: bool) -> Vec<(&[u8], usize)> {
        let per_request = if is_store { self.lines / self.ends.len() } else { 2 };
        let mut begin = 0;
        let ends = self.ends.chunks(together);
        ends.map(|ends| {
            let end = ends[ends.len() - 1];
            let piece = &self.body[begin..end];
            begin = end;
            (piece, per_request * ends.len())
        })
        .collect()
    }

    /// Lines that come back in all.
    pub fn lines_of(&self, who: &Contender) -> usize {
        if who.is_store() { self.lines } else { 2 * self.ends.len() }
    }

    pub fn open(&self, who: &Contender, process: &mut Process) {
        if who.is_store() {
            for request in &self.opening {
                process.call(request);
            }
        }
    }

    /// Runs the whole body at once in a fresh process.
    pub fn flood(&self, suite: &Suite, who: &Contender) -> Took {
        let who = who.fresh();
        let mut process = Process::start(suite, &who);
        self.open(&who, &mut process);
        let took = process.flood(&self.body, self.lines_of(&who));
        process.kill();
        took
    }

    /// Floods a fresh process of each contender with the body, `pieces` pieces of it, one contender after the other with
    /// each piece: whatever slows the machine for longer than that slows them alike.
    pub fn flood_in_turn(&self, suite: &Suite, contenders: &[Contender], pieces: usize) -> Vec<Vec<Took>> {
        let started = contenders.iter().map(|who| {
            let who = who.fresh();
            let mut process = Process::start(suite, &who);
            self.open(&who, &mut process);
            (process, self.pieces(self.ends.len() / pieces, who.is_store()))
        });
        let mut started: Vec<_> = started.collect();
        let runs = (0..pieces).map(|at| {
            let flooded =
                started.iter_mut().map(|(process, pieces)| process.flood(pieces[at].0, pieces[at].1));
            flooded.collect()
        });
        let runs = runs.collect();
        started.into_iter().for_each(|(process, _)| process.kill());
        runs
    }

    /// Instructions for one operation of the body, sent at once.
    pub fn count(&self, suite: &Suite, who: &Contender, name: &str) -> Option<f64> {
        let who = who.fresh();
        let mut process = Process::start_counted(suite, &who)?;
        self.open(&who, &mut process);
        let lines = self.lines_of(&who);
        let count = process.instructions(name, |process| {
            process.flood(&self.body, lines);
        });
        process.kill();
        Some(count? as f64 / self.operations as f64)
    }
}

/// A request of a session.
pub fn request(id: usize, method: &str, session: &str, more: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/{method}","params":{{"sessionId":"{session}"{more}}}}}"#
    )
}

pub fn new(session: &str) -> String {
    request(0, "new", session, "")
}

/// An append of an event of that type.
pub fn append(id: usize, session: &str, kind: &str, data: &str, is_surface: bool) -> String {
    let op = if is_surface { r#","surfaceOp":"append""# } else { "" };
    request(id, "append", session, &format!(r#","type":"{kind}","data":{data}{op}"#))
}

/// A user's message of about 190 bytes; its append is a request of about 300.
pub fn message(n: usize) -> String {
    format!(
        concat!(
            r#"{{"id":"m{n}","role":"user","content":[{{"type":"text","#,
            r#""text":"A line of text that a person may have typed, long enough for a request of 300 bytes."}}],"#,
            r#""source":{{"kind":"user"}}}}"#
        ),
        n = n
    )
}

pub fn append_message(n: usize, session: &str) -> String {
    append(n, session, "user/message", &message(n), true)
}

/// A new session with its first event: that one makes the file, and is awaited alone.
pub fn open_session(session: &str) -> Vec<String> {
    vec![new(session), append_message(0, session)]
}

/// The same, in an open turn and step.
pub fn open_step(session: &str) -> Vec<String> {
    let mut opening = open_session(session);
    opening.push(append(1, session, "turn/start", r#"{"turn":1}"#, false));
    opening.push(append(2, session, "step/start", r#"{"turn":1,"step":1}"#, false));
    opening
}
