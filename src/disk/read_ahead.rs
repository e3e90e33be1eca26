//! Batches of lines, one after the other: those of a long log are filled by a second thread while the first takes them.

use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use super::batch::{Batch, BatchReader};

/// A log with less to read is not worth a thread.
const AHEAD_FROM: u64 = 1 << 20;

/// Batches that there are: one that is filled, one that is taken, and one that evens out their pace. They bound what the
/// reading holds beside what the log keeps, which may be their texts; of lines that fit no batch it holds one.
const BATCHES: usize = 3;

/// Takes a batch; false when the rest is not wanted.
type Take<'t> = &'t mut dyn FnMut(&Batch) -> bool;

/// Gives all batches to `take`, in order and on this thread, until it has had enough.
///
/// # Errors
/// That of the disk, once the lines before it were taken.
pub(super) fn each_batch(reader: &mut BatchReader<'_>, take: Take<'_>) -> io::Result<()> {
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

fn take_all(
    filled: &Receiver<io::Result<Batch>>,
    give_back: Sender<Batch>,
    take: Take<'_>,
) -> io::Result<()> {
    for _ in 0..BATCHES {
        let _ = give_back.send(Batch::default());
    }
    // The other side ends with an error, or when it is no longer asked: it panicked if it is gone here.
    while let Ok(batch) = filled.recv() {
        let batch = batch?;
        if !take(&batch) {
            break;
        }
        let _ = give_back.send(batch);
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
