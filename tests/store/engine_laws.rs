//! Does every engine keep the laws of `store::storage::Storage`? (docs/storage-engines.md)

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sessiond::log::{Offset, SessionId};
use sessiond::session::{Limits, Session, Vocabulary};
use sessiond::store::storage::{
    Append, Behind, Created, Event, Inspected, Lease, ListPage, ListQuery, LoadRules, Loaded, Promise,
    Publication, Released, Reply, Request, Storage, StorageError, StoredSummary, Ticket, promise,
};
use sessiond::store::{DaemonId, JsonlOptions, JsonlStorage, MemoryStorage};

use crate::dur_support::local::runtime;
use crate::remote_support::Remote;
use crate::support::bench::{self, Bench, Making};

/// An engine, and what it has said.
struct Engine {
    storage: Box<dyn Storage>,
    next: Ticket,
    asked: Vec<Ticket>,
    acknowledged: HashMap<SessionId, Offset>,
    durable: HashMap<SessionId, u64>,
}

/// The laws hold for each of them.
fn each_engine(law: impl Fn(&mut Engine)) {
    let root = tempfile::tempdir().unwrap();
    let threads = runtime();
    let options = JsonlOptions {
        root: root.path().to_owned(),
        sync_window: Duration::ZERO,
        max_event_bytes: Limits::default().max_event_bytes,
        me: DaemonId::process(1, 0),
        fault_file: None,
    };
    let jsonl = JsonlStorage::new(options, threads.handle().clone(), Arc::new(|| ()));
    law(&mut Engine::new(Box::new(MemoryStorage::default())));
    law(&mut Engine::new(Box::new(jsonl)));
    law(&mut Engine::new(Box::new(Remote::new(1).0)));
}

fn id(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

fn rules() -> LoadRules {
    LoadRules { vocabulary: Vocabulary::default(), limits: Limits::default() }
}

fn note(n: u64) -> bench::Event {
    bench::Event {
        ignorable: Some("true".to_owned()),
        ..bench::Event::new("x/note", format!("{{\"n\":{n}}}"))
    }
}

fn lines(session: &Session) -> Vec<String> {
    session.history().log().iter().map(|event| event.line().to_owned()).collect()
}

impl Engine {
    fn new(storage: Box<dyn Storage>) -> Self {
        Self { storage, next: 0, asked: Vec::new(), acknowledged: HashMap::new(), durable: HashMap::new() }
    }

    fn is_durable(&self) -> bool {
        self.storage.info().durable
    }

    /// Hears one event; false where there is none.
    fn hear(&mut self) -> bool {
        let says = self.storage.has_events();
        let event = self.storage.poll();
        assert!(!says || event.is_some(), "what has events gives one");
        match event {
            None => return false,
            Some(Event::Done(ticket)) => {
                let at = self.asked.iter().position(|asked| *asked == ticket);
                self.asked.remove(at.expect("what was asked is done once"));
            }
            Some(Event::Acknowledged { session, through }) => {
                let before = self.acknowledged.insert(session, through);
                assert!(before.is_none_or(|before| before <= through), "acknowledged in order");
            }
            Some(Event::Durable { session, through }) => {
                let before = self.durable.insert(session, through.get());
                assert!(before.is_none_or(|before| before <= through.get()), "what is durable stays so");
            }
            Some(event) => panic!("nothing failed: {event:?}"),
        }
        true
    }

    fn until(&mut self, is_done: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !is_done(self) {
            if !self.hear() {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "something waits for ever");
        }
    }

    fn start<T>(&mut self, ask: impl FnOnce(Promise<T>) -> Request) -> (Ticket, Reply<T>) {
        let (promise, reply) = promise();
        self.next += 1;
        self.asked.push(self.next);
        self.storage.start(self.next, ask(promise));
        (self.next, reply)
    }

    fn ask<T>(&mut self, ask: impl FnOnce(Promise<T>) -> Request) -> Result<T, StorageError> {
        let (ticket, reply) = self.start(ask);
        self.until(|engine| !engine.asked.contains(&ticket));
        reply.take()
    }

    fn create(&mut self, session: &mut Session) -> Result<Created, StorageError> {
        let (id, publication) = (session.id().clone(), Box::new(Publication::from(&mut *session)));
        let created = self.ask(|reply| Request::Create { id, publication, reply })?;
        session.set_epoch(created.epoch);
        Ok(created)
    }

    /// Hands the events from there on to the engine.
    fn append(&mut self, session: &mut Session, from: u64) -> Append {
        let (epoch, to) = (session.epoch().unwrap(), session.next_seq());
        let (id, mut log) = session.outgoing();
        let lease = Lease { session: id, epoch };
        self.storage.append(lease, &mut log, Offset::new(from).unwrap(), to)
    }

    /// The same until they are stored.
    fn store(&mut self, session: &mut Session, from: u64) {
        let (id, to) = (session.id().clone(), session.next_seq());
        match self.append(session, from) {
            Append::Written => {}
            Append::Queued => self.until(|engine| engine.acknowledged.get(&id).is_some_and(|end| *end >= to)),
            Append::Refused(error) => panic!("{error:?}"),
        }
    }

    fn find(&mut self, session: &str) -> Option<StoredSummary> {
        self.ask(|reply| Request::Find { id: id(session), facts: true, reply }).unwrap()
    }

    fn load(&mut self, session: &str) -> Result<Box<Loaded>, StorageError> {
        self.ask(|reply| Request::Load { id: id(session), rules: rules(), reply })
    }

    fn inspect(&mut self, session: &str) -> Result<Box<Inspected>, StorageError> {
        self.ask(|reply| Request::Inspect { id: id(session), rules: rules(), reply })
    }

    fn release(&mut self, session: Session) {
        let session = Box::new(session);
        let released = self.ask(|reply| Request::Release { session, reply });
        assert!(matches!(released, Ok(Released::Whole)), "{released:?}");
    }

    fn page(&mut self, most: usize, behind: Option<Behind>) -> ListPage {
        let query = Box::new(ListQuery {
            vocabulary: Vocabulary::default(),
            place: None,
            behind,
            most,
            with_empty: false,
            now: i64::MAX,
            moved: HashMap::new(),
        });
        self.ask(|reply| Request::List { query, reply }).unwrap()
    }
}

/// A bench with a live session of so many events.
fn live(bench: &mut Bench, session: &str, events: u64) {
    bench.create(session, Making::default()).unwrap();
    for n in 0..events {
        bench.append(session, &note(n)).unwrap();
    }
}

/// Stores a session of so many events and gives it up.
fn stored(engine: &mut Engine, bench: &mut Bench, session: &str, events: u64) -> Vec<String> {
    live(bench, session, events);
    let live = bench.store.session_mut(session).unwrap();
    let lines = lines(live);
    if engine.is_durable() {
        engine.create(live).unwrap();
    }
    engine.release(bench.store.close(session).unwrap());
    lines
}

#[test]
fn what_is_stored_is_read_back_as_it_was() {
    each_engine(|engine| {
        let mut bench = Bench::default();
        let lines = stored(engine, &mut bench, "s", 3);
        assert_eq!(engine.find("s").unwrap().next_seq.get(), 3);
        assert!(engine.find("other").is_none());
        let inspected = engine.inspect("s").unwrap();
        assert_eq!(inspected.log.iter().map(|event| event.line().to_owned()).collect::<Vec<_>>(), lines);
        let loaded = engine.load("s").unwrap();
        assert_eq!(loaded.header.id, id("s"));
        assert_eq!(
            loaded.history.log().iter().map(|event| event.line().to_owned()).collect::<Vec<_>>(),
            lines
        );
        assert!(engine.storage.is_quiet() && !engine.storage.has_events());
        let missing = engine.load("other");
        assert!(
            matches!(&missing, Err(StorageError::NotFound(missing)) if *missing == id("other")),
            "{missing:?}"
        );
        assert!(matches!(engine.inspect("other"), Err(StorageError::NotFound(_))));
    });
}

#[test]
fn appends_are_acknowledged_in_order_and_what_follows_takes_effect_behind_them() {
    each_engine(|engine| {
        let mut bench = Bench::default();
        live(&mut bench, "s", 1);
        if engine.is_durable() {
            engine.create(bench.store.session_mut("s").unwrap()).unwrap();
        } else {
            bench.store.session_mut("s").unwrap().set_epoch(0);
        }
        // In flight at once, and one without an event among them.
        let mut from = 1;
        for events in [1, 2, 0, 1] {
            (0..events).for_each(|n| drop(bench.append("s", &note(n)).unwrap()));
            let append = engine.append(bench.store.session_mut("s").unwrap(), from);
            assert!(!matches!(append, Append::Refused(_)), "{append:?}");
            from += events;
        }
        let synced = engine.ask(|reply| Request::Sync { id: id("s"), facts: None, reply }).unwrap();
        assert_eq!(synced.map(|seq| seq.get()), engine.is_durable().then_some(4));
        engine.store(bench.store.session_mut("s").unwrap(), 5);
        // A release behind an append that nobody has waited for.
        bench.append("s", &note(9)).unwrap();
        let append = engine.append(bench.store.session_mut("s").unwrap(), 5);
        assert!(!matches!(append, Append::Refused(_)), "{append:?}");
        let lines = lines(bench.session("s"));
        engine.release(bench.store.close("s").unwrap());
        let loaded = engine.load("s").unwrap();
        assert_eq!(
            loaded.history.log().iter().map(|event| event.line().to_owned()).collect::<Vec<_>>(),
            lines
        );
    });
}

#[test]
fn an_open_turn_is_closed_by_a_load_and_its_closers_are_stored_with_the_next_append_or_flush() {
    each_engine(|engine| {
        let mut bench = Bench::default();
        bench.create("s", Making::default()).unwrap();
        bench.append("s", &bench::Event::new("turn/start", r#"{"turn":1}"#)).unwrap();
        if engine.is_durable() {
            engine.create(bench.store.session_mut("s").unwrap()).unwrap();
        }
        engine.release(bench.store.close("s").unwrap());
        let loaded = engine.load("s").unwrap();
        let closed = loaded.history.log().len().get();
        assert!(closed > 1);
        let restored = sessiond::session::Restore {
            header: loaded.header,
            inherited: loaded.inherited,
            history: loaded.history,
            invariants: sessiond::session::Validation::Enforce,
            mended: loaded.mended,
        };
        let (store, mut context) = bench.tick();
        store.restore(restored, &mut context).unwrap();
        bench.store.session_mut("s").unwrap().set_epoch(loaded.epoch);
        // Behind what is to be mended, and behind one another.
        for n in 0..3 {
            bench.append("s", &note(n)).unwrap();
            let append = engine.append(bench.store.session_mut("s").unwrap(), closed + n);
            assert!(!matches!(append, Append::Refused(_)), "{append:?}");
        }
        let synced = engine.ask(|reply| Request::Sync { id: id("s"), facts: None, reply }).unwrap();
        assert_eq!(synced.map(|seq| seq.get()), engine.is_durable().then_some(closed + 2));
        let lines = lines(bench.session("s"));
        engine.release(bench.store.close("s").unwrap());
        let inspected = engine.inspect("s").unwrap();
        assert_eq!(inspected.log.iter().map(|event| event.line().to_owned()).collect::<Vec<_>>(), lines);
        assert_eq!(inspected.closers, [""; 0]);
    });
}

#[test]
fn an_id_is_given_once_until_it_is_deleted() {
    each_engine(|engine| {
        if !engine.is_durable() {
            return; // it is handed closed sessions only
        }
        let mut bench = Bench::default();
        stored(engine, &mut bench, "s", 1);
        live(&mut bench, "s", 1);
        let again = engine.create(bench.store.session_mut("s").unwrap());
        assert!(
            matches!(&again, Err(StorageError::Exists { id: taken, .. }) if *taken == id("s")),
            "{again:?}"
        );
        engine.ask(|reply| Request::Delete { id: id("s"), reply }).unwrap();
        assert!(engine.find("s").is_none());
        engine.create(bench.store.session_mut("s").unwrap()).unwrap();
        assert_eq!(engine.find("s").unwrap().next_seq.get(), 1);
    });
}

#[test]
fn what_was_deleted_or_discarded_leaves_nothing_behind() {
    each_engine(|engine| {
        let mut bench = Bench::default();
        let lines = stored(engine, &mut bench, "s", 2);
        engine.load("s").unwrap();
        engine.storage.discard(&id("s"));
        let loaded = engine.load("s").unwrap();
        assert_eq!(loaded.history.log().len().get(), lines.len() as u64);
        engine.storage.discard(&id("s"));
        engine.ask(|reply| Request::Delete { id: id("s"), reply }).unwrap();
        assert!(matches!(engine.load("s"), Err(StorageError::NotFound(_))));
        engine.ask(|reply| Request::Delete { id: id("s"), reply }).unwrap(); // of nothing it is done, too
        assert_eq!(engine.page(9, None).sessions.len(), 0);
    });
}

#[test]
fn requests_in_flight_are_each_done_once_whatever_their_order() {
    each_engine(|engine| {
        let mut bench = Bench::default();
        for n in 0..5 {
            stored(engine, &mut bench, &format!("s{n}"), n + 1);
        }
        let finds: Vec<_> = (0..5)
            .map(|n| engine.start(|reply| Request::Find { id: id(&format!("s{n}")), facts: true, reply }))
            .collect();
        let loads: Vec<_> = (0..5)
            .map(|n| engine.start(|reply| Request::Load { id: id(&format!("s{n}")), rules: rules(), reply }))
            .collect();
        engine.until(|engine| engine.asked.is_empty());
        for (n, (_, reply)) in finds.into_iter().enumerate() {
            assert_eq!(reply.take().unwrap().unwrap().next_seq.get(), n as u64 + 1);
        }
        for (n, (_, reply)) in loads.into_iter().enumerate() {
            assert_eq!(reply.take().unwrap().history.log().len().get(), n as u64 + 1);
        }
        assert!(engine.storage.is_quiet());
    });
}

#[test]
fn the_pages_of_a_list_are_all_sessions_once_and_in_order() {
    each_engine(|engine| {
        let mut bench = Bench::default();
        for n in 0..7 {
            stored(engine, &mut bench, &format!("s{n}"), 1);
        }
        for most in [1, 2, 7, 9] {
            let (mut seen, mut behind) = (Vec::new(), None);
            loop {
                let page = engine.page(most, behind).sessions;
                assert!(page.len() <= most);
                let Some(last) = page.last() else { break };
                let (time, id, place) = (last.time(), last.id.clone(), last.place.clone());
                behind = Some(Behind { time, id, place, moment: i64::MAX });
                seen.extend(page.into_iter().map(|info| info.id));
            }
            // The latest first.
            assert_eq!(seen, ["s6", "s5", "s4", "s3", "s2", "s1", "s0"], "by {most}");
        }
    });
}
