//! Batches of lines, one after the other: those of a long log are filled by a second thread while the first takes them.

use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use super::batch::{BATCH, Batch, BatchReader};

/// A log with less to read is not worth a thread.
const AHEAD_FROM: u64 = 1 << 20;

/// Batches that there are: one that is filled, one that is taken, and one that evens out their pace. They bound what the
/// reading holds beside what the log keeps, which may be their texts; of lines that fit no batch it holds one.
const BATCHES: usize = 3;

/// With so much left to read, the memory of each of them is filled once more.
const ALL_FILLED: u64 = (BATCHES * BATCH) as u64;

/// Takes a batch; false when the rest is not wanted.
type Take<'t> = &'t mut dyn FnMut(&Batch) -> bool;

/// Gives all batches to `take`, in order and on this thread, until it has had enough.
///
/// # Errors
/// That of the disk, once the lines before it were taken.
pub(in crate::disk) fn each_batch(reader: &mut BatchReader<'_>, take: Take<'_>) -> io::Result<()> {
    if reader.left() >= AHEAD_FROM
        && let Some(done) = each_ahead(reader, take)
    {
        return done;
    }
    let mut batch = Batch::default();
    loop {
        reader.fill(&mut batch, &mut || true)?;
        if !take(&batch) {
            return Ok(());
        }
    }
}

/// The same with a thread that reads ahead; none where there is no thread to be had, and nothing was read then.
fn each_ahead(reader: &mut BatchReader<'_>, take: Take<'_>) -> Option<io::Result<()>> {
    thread::scope(|scope| {
        let (give, filled) = sync_channel(BATCHES);
        let (give_back, free) = channel();
        let reading = thread::Builder::new()
            .name("read ahead".to_owned())
            .spawn_scoped(scope, move || fill_all(reader, &free, &give))
            .ok()?;
        // Both ends are gone when this returns, or unwinds: then the reading ends, and the scope with it.
        let done = take_all(&filled, give_back, take);
        drop(filled);
        match reading.join() {
            Ok(()) => Some(done),
            Err(panic) => resume_unwind(panic),
        }
    })
}

/// Takes batches, and gives them back, until there are no more or no more is wanted.
///
/// The side that fills them is mostly the slower one, and a good part of its time goes to first touches of the pages that
/// a log then keeps. So who takes them touches pages too, while it finds no batch filled: both come out even, and
/// nothing more is held than three batches with their memory.
fn take_all(
    filled: &Receiver<io::Result<Batch>>,
    give_back: Sender<Batch>,
    take: Take<'_>,
) -> io::Result<()> {
    for _ in 0..BATCHES {
        let _ = give_back.send(Batch::default());
    }
    // The other side ends with an error, or when it is no longer asked: it panicked if it is gone here.
    let mut next = filled.recv().ok();
    while let Some(batch) = next {
        let mut batch = batch?;
        if !take(&batch) {
            break;
        }
        next = filled.try_recv().ok();
        if next.is_none() && batch.left() >= ALL_FILLED {
            batch.make_ready(); // instead of waiting: a part of the other side's work
        }
        let _ = give_back.send(batch);
        next = next.or_else(|| filled.recv().ok());
    }
    Ok(())
}

/// Fills batches until nobody takes them any more. The log's last one is taken, and then none is.
fn fill_all(reader: &mut BatchReader<'_>, free: &Receiver<Batch>, give: &SyncSender<io::Result<Batch>>) {
    let mut held: Vec<Batch> = Vec::new();
    while let Some(mut batch) = held.pop().or_else(|| free.recv().ok()) {
        // A line that fits no batch is alone: all others have come back before, and one as long is given up.
        let mut all_back = || {
            held.extend(free.iter().take(BATCHES - 1 - held.len()).map(|_| Batch::default()));
            held.len() == BATCHES - 1
        };
        let filled = reader.fill(&mut batch, &mut all_back).map(|()| batch);
        let failed = filled.is_err();
        if give.send(filled).is_err() || failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Scratch;

    /// The first batch of a log of so many, and the room of what is given back for it when its text is `kept` and the
    /// second one is `there` already.
    fn room_given_back(batches: usize, kept: bool, there: bool) -> usize {
        let log = b"[1]\n".repeat(batches * BATCH / 4);
        let source = log.as_slice();
        let mut reader = BatchReader::new(&source, 0, log.len() as u64, BATCH, Scratch::default());
        let (give, filled) = sync_channel(BATCHES);
        for _ in 0..1 + usize::from(there) {
            let mut batch = Batch::default();
            assert!(reader.fill(&mut batch, &mut || true).is_ok());
            assert!(give.send(Ok(batch)).is_ok());
        }
        drop(give);
        let (give_back, free) = channel();
        let mut texts = Vec::new();
        let done = take_all(&filled, give_back, &mut |batch| {
            assert!(batch.lines().count() == BATCH / 4);
            texts.extend(batch.text().filter(|_| kept).cloned());
            true
        });
        assert!(done.is_ok() && texts.iter().all(|text| text.len() == BATCH));
        let first = free.iter().nth(BATCHES);
        first.map_or(0, |batch| batch.room())
    }

    #[test]
    fn memory_is_made_ready_for_what_will_be_read_and_while_there_is_nothing_to_take() {
        assert_eq!(room_given_back(BATCHES + 1, true, false), BATCH);
        assert_eq!(room_given_back(BATCHES + 1, true, true), 0);
        assert_eq!(room_given_back(BATCHES, true, false), 0);
        for batches in [BATCHES, BATCHES + 1] {
            assert_eq!(room_given_back(batches, false, false), BATCH, "what is not kept is used again");
        }
    }
}
