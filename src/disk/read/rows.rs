//! The rule of the longest sound prefix, one record after the other (FORMAT 13.1).

use std::sync::Arc;

use super::batch::{Batch, BatchLine, LONG};
use super::damage::{Damage, Place, Problem, ReadError};
use super::legacy;
use super::reader::{Counts, MAX_PROBLEMS, Scan, Sink, StoredEvent, TornTail};
use super::row::{Record, decode, record};
use crate::json::{Checks, Json, JsonStr, Scratch};
use crate::log::{ChunkRow, Draft, Header, Kind, Offset, Seq, SeqRuns, parse_header_line};

/// Rows may take this many bytes as events, whatever their length, and this many for each byte of theirs: else a
/// small file could fill the memory (a row's id is repeated in each of its events).
const FREE_EXPANSION: usize = 1 << 20;
const MAX_EXPANSION: usize = 256;

fn max_expanded(line: &[u8]) -> usize {
    line.len().saturating_mul(MAX_EXPANSION).saturating_add(FREE_EXPANSION)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// All records so far are events.
    Sound,
    /// The prefix has ended; what follows decides whether that is fatal.
    Damaged,
    /// Nothing more needs to be read.
    Stopped,
}

/// Which seq the next record is to have, behind damage.
#[derive(Clone, Copy)]
enum Due {
    /// The one behind a record in its place, or the one behind what that record says itself.
    Behind(Offset, Offset),
    /// At least this one: what stands before it does not tell how many events it was.
    From(Offset),
}

impl Due {
    fn first(self) -> Offset {
        match self {
            Self::Behind(first, _) | Self::From(first) => first,
        }
    }

    fn is(self, found: Seq) -> bool {
        let found = found.before();
        match self {
            Self::Behind(one, other) => found == one || found == other,
            Self::From(first) => found >= first,
        }
    }
}

/// See [`Rows::mark`].
pub(in crate::disk) struct Mark {
    events: Offset,
    missing_newline: bool,
    state: State,
    due: Due,
    row: u64,
    problems: usize,
    problem_count: u64,
    fatal: bool,
    witness: Option<Place>,
    counts: Counts,
}

/// The records of one log after its header.
pub(in crate::disk) struct Rows<'s> {
    sink: &'s mut dyn Sink,
    scratch: Scratch,
    header: Header,
    inherited: Offset,
    events: Offset,
    /// The end of the last sound record in the decoded text.
    sound_end: u64,
    missing_newline: bool,
    state: State,
    due: Due,
    judges_all: bool,
    row: u64,
    problems: Vec<Problem>,
    problem_count: u64,
    fatal: bool,
    witness: Option<Place>,
    counts: Counts,
}

/// Reads the header line, without its line end, and shows it to the sink.
pub(in crate::disk) fn open<'s>(line: &[u8], sink: &'s mut dyn Sink) -> Result<Rows<'s>, ReadError> {
    let text = std::str::from_utf8(line).map_err(|_| ReadError::HeaderNotUtf8)?;
    let (header, inherited) = parse_header_line(text).map_err(ReadError::Header)?;
    sink.header(&header, inherited).map_err(ReadError::Refused)?;
    Ok(Rows {
        judges_all: sink.judges_all(),
        sink,
        scratch: Scratch::default(),
        header,
        inherited,
        events: Offset::ZERO,
        sound_end: line.len() as u64 + 1,
        missing_newline: false,
        state: State::Sound,
        due: Due::From(Offset::ZERO),
        row: 0,
        problems: Vec::new(),
        problem_count: 0,
        fatal: false,
        witness: None,
        counts: Counts::default(),
    })
}

impl Rows<'_> {
    pub(in crate::disk) fn events(&self) -> Offset {
        self.events
    }

    pub(in crate::disk) fn is_missing_newline(&self) -> bool {
        self.missing_newline
    }

    /// All records so far were events.
    pub(in crate::disk) fn is_sound(&self) -> bool {
        self.state == State::Sound
    }

    pub(in crate::disk) fn is_stopped(&self) -> bool {
        self.state == State::Stopped
    }

    pub(in crate::disk) fn sound_end(&self) -> u64 {
        self.sound_end
    }

    /// Takes a record that ends in a line end; its bytes come without that.
    pub(in crate::disk) fn line(&mut self, offset: u64, text: u64, line: &[u8]) {
        let end = text + line.len() as u64 + 1;
        self.record(offset, text, line, end, true);
    }

    /// Takes what follows the last line end. A whole record is as good as any (PROTOCOL 9.3).
    pub(in crate::disk) fn last(&mut self, offset: u64, text: u64, line: &[u8]) {
        if !line.is_empty() {
            self.record(offset, text, line, text + line.len() as u64, false);
        }
    }

    /// Takes the lines of a batch of a plain log.
    pub(in crate::disk) fn batch(&mut self, batch: &Batch) {
        batch.lines().for_each(|line| self.batched(&line, batch.text()));
    }

    /// Takes a line of a plain log that may have been scanned before. Where it is the very line of its event, the event
    /// comes with the text that holds it.
    fn batched(&mut self, line: &BatchLine<'_>, text: Option<&Arc<String>>) {
        let BatchLine { offset, start, bytes, scanned, ended } = *line;
        match scanned {
            Some((row, checks)) => {
                let end = offset + bytes.len() as u64 + u64::from(ended);
                if let Some(place) = self.next_place(offset, offset) {
                    let mut read = record(row, checks);
                    if let (Ok(Record::Event { rest: Ok((_, draft)), .. }), Some(text)) = (&mut read, text)
                        && ended
                        && row.text().len() == bytes.len()
                    {
                        draft.line = draft.line.map(|line| line.held_by(text, start));
                    }
                    self.judge(read, place, bytes, end, ended);
                }
            }
            None if ended => self.line(offset, offset, bytes),
            None => self.last(offset, offset, bytes),
        }
    }

    /// The place of one more record; none when no more is taken.
    fn next_place(&mut self, offset: u64, text: u64) -> Option<Place> {
        if self.state == State::Stopped {
            return None;
        }
        self.row += 1;
        self.counts.rows += 1;
        Some(Place { row: self.row, offset, text })
    }

    fn record(&mut self, offset: u64, text: u64, line: &[u8], end: u64, ended: bool) {
        let Some(place) = self.next_place(offset, text) else { return };
        let mut scratch = std::mem::take(&mut self.scratch);
        self.judge(decode(line, &mut scratch), place, line, end, ended);
        if line.len() > LONG {
            scratch.trim();
        }
        self.scratch = scratch;
    }

    /// What a record, or what is none, is to the log.
    fn judge(&mut self, read: Result<Record<'_>, Damage>, place: Place, line: &[u8], end: u64, ended: bool) {
        match read {
            Ok(record) if self.state == State::Sound => {
                if self.take(&record, place, line) {
                    self.sound_end = end;
                    self.missing_newline = !ended;
                }
            }
            Ok(record) => self.stranded(&record, place, line),
            Err(damage) => {
                self.due = Due::From(self.due());
                let damage = match damage {
                    // Cut in the middle of a character, of a token, or of anything else.
                    Damage::NotUtf8(_) | Damage::NotJson(_) if !ended => Damage::Incomplete,
                    damage => damage,
                };
                self.damage(place, damage);
                // A lost block ends where it ends: what stands behind the NULs may be a record.
                let mut scratch = Scratch::default();
                if let Some(Ok(record)) = nul_run(line).map(|from| decode(from, &mut scratch)) {
                    self.stranded(&record, place, line);
                }
            }
        }
    }

    /// Takes a sound record as the next of the log; false when it is not that.
    fn take(&mut self, record: &Record<'_>, place: Place, line: &[u8]) -> bool {
        if record.first().map(Seq::before) != Some(self.events) {
            self.due = Due::Behind(self.events, self.events);
            self.stranded(record, place, line);
            return false;
        }
        let seq = self.events.next();
        let taken = match record {
            Record::Chunks { chunks, row, depth } => self.take_chunks(chunks, *row, *depth, place, line),
            Record::Event { rest: Ok((time, draft)), row, checks, .. } => {
                self.take_event((seq, *time), draft, *row, *checks, place, false).map(|()| 1)
            }
            Record::Event { rest: Err(error), .. } => Err(Damage::Envelope(error.clone())),
        };
        match taken {
            Ok(count) => self.events = self.events.plus(count),
            Err(damage) => {
                let behind = self.events.plus(record.events().max(1));
                self.due = Due::Behind(behind, behind);
                self.stop(place, damage);
            }
        }
        self.state == State::Sound
    }

    /// The seq of the next record if all is well.
    fn due(&self) -> Offset {
        if self.state == State::Sound { self.events } else { self.due.first() }
    }

    /// Judges a whole record behind damage by itself.
    fn stranded(&mut self, record: &Record<'_>, place: Place, line: &[u8]) {
        self.counts.stranded += record.events();
        let (due, found, count) = (self.due, record.first(), record.events().max(1));
        let in_place = due.first().plus(count);
        self.due = match found {
            Some(found) if due.is(found) => {
                Due::Behind(found.before().plus(count), found.before().plus(count))
            }
            found => {
                self.damage(place, Damage::SeqGap { expected: due.first(), found });
                Due::Behind(in_place, found.map_or(in_place, |found| found.before().plus(count)))
            }
        };
        self.look_for_commit(record, place);
        if !self.judges_all {
            return;
        }
        let judged = match (record, found) {
            (Record::Chunks { chunks, .. }, _) => check_room(chunks, line),
            (Record::Event { rest: Ok((time, draft)), row, checks, .. }, Some(seq)) => {
                self.take_event((seq, *time), draft, *row, *checks, place, true)
            }
            (Record::Event { rest: Err(error), .. }, Some(_)) => Err(Damage::Envelope(error.clone())),
            (Record::Event { .. }, None) => Ok(()), // said already
        };
        if let Err(damage) = judged {
            self.damage(place, damage);
        }
    }

    fn take_chunks(
        &mut self,
        chunks: &ChunkRow<'_>,
        row: Json<'_>,
        depth: u32,
        place: Place,
        line: &[u8],
    ) -> Result<u64, Damage> {
        check_room(chunks, line)?;
        let sink = &mut *self.sink;
        let taken = chunks.each(|seq, time, draft| {
            let checks =
                Checks { needs_compaction: draft.needs_compaction, depth: depth + 1, ..Checks::default() };
            sink.event(&StoredEvent { seq, time, draft, checks, row, place, changed: true })
        });
        if let Err(refused) = taken {
            sink.retract(self.events); // a row is all or nothing
            return Err(Damage::Refused(refused));
        }
        self.counts.packed += 1;
        Ok(chunks.count())
    }

    fn take_event(
        &mut self,
        (seq, time): (Seq, i64),
        draft: &Draft<'_>,
        row: Json<'_>,
        mut checks: Checks,
        place: Place,
        stranded: bool,
    ) -> Result<(), Damage> {
        let mut draft = *draft;
        draft.packed = draft.sources.is_some_and(|sources| SeqRuns::read(sources, seq).is_some());
        let sink = &*self.sink;
        let message_id = |seq| {
            let event = sink.event_at(seq)?;
            legacy::message_id_of(event).map(|id| id.text().to_owned())
        };
        let upgraded = match legacy::upgrade(&draft, seq, self.header.id.as_str(), &message_id) {
            // It has its place in the log, so what follows is judged as part of one.
            Err(error) if self.judges_all && !stranded => {
                self.note(place, error.into());
                self.fatal = true;
                None
            }
            upgraded => upgraded?,
        };
        if let Some(upgraded) = &upgraded {
            let (data, found) = Json::parse(&upgraded.data).map_err(Damage::NotJson)?;
            (draft.data, draft.needs_compaction, draft.line) =
                (data, draft.needs_compaction || found.needs_compaction, None);
            checks = Checks {
                needs_compaction: draft.needs_compaction,
                depth: found.depth.saturating_add(1),
                ..found
            };
            if upgraded.user_message {
                draft.type_text = JsonStr::from_verified("\"user/message\"");
                draft.kind = Kind::UserMessage;
            }
        }
        let changed = upgraded.is_some();
        let event = StoredEvent { seq, time, draft: &draft, checks, row, place, changed };
        if stranded {
            return self.sink.stranded(&event).map_err(Damage::Refused);
        }
        self.sink.event(&event).map_err(Damage::Refused)?;
        self.counts.upgraded += u64::from(upgraded.is_some());
        self.counts.ranged += u64::from(draft.packed);
        Ok(())
    }

    /// Notes damage: the prefix ends before it.
    pub(in crate::disk) fn damage(&mut self, place: Place, damage: Damage) {
        self.state = State::Damaged;
        self.note(place, damage);
    }

    fn note(&mut self, place: Place, damage: Damage) {
        self.problem_count += 1;
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(Problem { place, damage, in_frame: false });
        }
    }

    /// A turn that was committed behind damage makes it fatal.
    fn look_for_commit(&mut self, record: &Record<'_>, place: Place) {
        if !self.fatal && record.is_turn_end() {
            self.fatal = true;
            self.witness = Some(place);
        }
    }

    /// Damage that no torn tail explains.
    pub(in crate::disk) fn stop(&mut self, place: Place, damage: Damage) {
        self.damage(place, damage);
        self.fatal = true;
        if !self.judges_all {
            self.state = State::Stopped;
        }
    }

    /// Stops at what is no record, such as a line that is too long: where the next record would be.
    pub(in crate::disk) fn stop_at(&mut self, offset: u64, text: u64, damage: Damage) {
        if self.state != State::Stopped {
            self.stop(Place { row: self.row + 1, offset, text }, damage);
            self.state = State::Stopped;
        }
    }

    /// Notes damage where the next record would be.
    pub(in crate::disk) fn damage_at(&mut self, offset: u64, text: u64, damage: Damage) {
        self.damage(Place { row: self.row + 1, offset, text }, damage);
    }

    /// The damage so far is in complete frames, where no crash explains it (FORMAT 13.2).
    pub(in crate::disk) fn stop_in_frame(&mut self) {
        if self.state == State::Damaged {
            if let (false, Some(first)) = (self.fatal, self.problems.first_mut()) {
                first.in_frame = true;
            }
            self.fatal = true;
            self.state = State::Stopped;
        }
    }

    /// What is known before a frame whose content is not trusted yet.
    pub(in crate::disk) fn mark(&mut self) -> Mark {
        self.sink.frame_begins();
        Mark {
            events: self.events,
            missing_newline: self.missing_newline,
            state: self.state,
            due: self.due,
            row: self.row,
            problems: self.problems.len(),
            problem_count: self.problem_count,
            fatal: self.fatal,
            witness: self.witness,
            counts: self.counts,
        }
    }

    /// Forgets what came since.
    pub(in crate::disk) fn go_back(&mut self, to: Mark) {
        if self.events != to.events {
            self.sink.retract(to.events);
        }
        self.problems.truncate(to.problems);
        let Mark { events, missing_newline, state, due, row, problem_count, fatal, witness, counts, .. } = to;
        (self.events, self.missing_newline, self.state, self.row) = (events, missing_newline, state, row);
        self.due = due;
        (self.problem_count, self.fatal, self.witness, self.counts) = (problem_count, fatal, witness, counts);
    }

    /// The result, for a file of `len` bytes with `header_bytes` of header, whose sound part ends at `committed`.
    pub(in crate::disk) fn finish(mut self, header_bytes: u64, committed: u64, len: u64, text: u64) -> Scan {
        if self.inherited > self.events && !self.fatal {
            let damage = Damage::InheritedExceeds { inherited: self.inherited, events: self.events };
            self.problems.insert(0, Problem { place: Place::default(), damage, in_frame: false });
            self.problem_count += 1;
            self.fatal = true;
        }
        let torn = (committed < len).then(|| TornTail {
            offset: committed,
            bytes: len - committed,
            events: self.counts.stranded,
        });
        Scan {
            header: self.header,
            inherited: self.inherited,
            header_bytes,
            events: self.events,
            committed,
            torn,
            recovered_from: self.events,
            missing_newline: self.missing_newline,
            problems: self.problems,
            problem_count: self.problem_count,
            witness: self.witness,
            fatal: self.fatal,
            counts: Counts { text_bytes: text, ..self.counts },
        }
    }
}

/// A row takes no more room as events than its length allows.
fn check_room(chunks: &ChunkRow<'_>, line: &[u8]) -> Result<(), Damage> {
    let (bytes, max) = (chunks.unpacked_len(), max_expanded(line) as u64);
    if bytes > max { Err(Damage::RowTooLarge { bytes, max }) } else { Ok(()) }
}

/// What follows the NULs at the start of a line, if there are some.
fn nul_run(line: &[u8]) -> Option<&[u8]> {
    let from = line.iter().position(|byte| *byte != 0)?;
    line.get(from..).filter(|_| from > 0)
}
