//! The stdio room against real pipes: does every byte arrive, once and in order, and does the owner never wait for
//! a peer? Time limits are watchdogs only.
#![allow(clippy::print_stdout)]

use std::io::{PipeReader, Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio as Child};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::io::ioctl_fionbio;
use sessiond::stdio::{
    Drained, Filled, Frame, Input, Lines, Output, Ready, StderrLog, WakeFd, take_stdio, wait, wake_pair,
};

/// Set for the child that gives its stdio away: nobody else's test run should lose it.
const CHILD: &str = "SESSIOND_TEST_CHILD";
const LONG: Duration = Duration::from_secs(60);

/// Fails instead of hanging.
fn within_a_minute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let worker = thread::spawn(move || done.send(work()));
    match result.recv_timeout(LONG) {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("still waiting after {LONG:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(worker.join().expect_err("no result, so it panicked"))
        }
    }
}

fn output_to_pipe(bound: usize) -> (Output, PipeReader, WakeFd) {
    let (reader, writer) = pipe().unwrap();
    let (output, wake) = output_to(writer, bound);
    (output, reader, wake)
}

fn output_to(fd: impl Into<OwnedFd>, bound: usize) -> (Output, WakeFd) {
    let (waker, wake) = wake_pair().unwrap();
    (Output::new(fd.into(), bound, waker), wake)
}

/// Hands over numbered lines in buffers of uneven sizes until at least `total` bytes; how many lines.
fn hand_over_numbers(output: &mut Output, total: usize) -> usize {
    let (mut sent, mut number, mut round) = (0, 0, 0);
    let mut buf = String::new();
    while sent < total {
        round += 1;
        // From one line to some 100 KB, now and then a megabyte.
        let lines = if round % 50 == 0 { 20_000 } else { 1 + (round * 7919) % 2_000 };
        for _ in 0..lines {
            buf.push_str(&format!("line {number} {}\n", "=".repeat(number % 90)));
            number += 1;
        }
        sent += buf.len();
        output.hand_over(&mut buf);
        assert!(buf.is_empty());
    }
    number
}

fn check_numbers(text: &[u8], count: usize) {
    let mut expected = Vec::new();
    let mut rest = text;
    for number in 0..count {
        expected.clear();
        writeln!(expected, "line {number} {}", "=".repeat(number % 90)).unwrap();
        rest = rest.strip_prefix(expected.as_slice()).unwrap_or_else(|| panic!("line {number} is not next"));
    }
    assert!(rest.is_empty());
}

fn read_in_thread(mut reader: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut text = Vec::new();
        reader.read_to_end(&mut text).unwrap();
        text
    })
}

#[test]
fn what_is_there_already_is_read_without_a_wait() {
    within_a_minute(|| {
        for blocking in [true, false] {
            let (reader, mut writer) = pipe().unwrap();
            ioctl_fionbio(&reader, !blocking).unwrap();
            let (mut input, mut lines) = (Input::new(reader.into()), Lines::new(100));
            assert_eq!(input.fill_now(&mut lines).unwrap(), Filled::NotReady);
            writer.write_all(b"a line\nand a ha").unwrap();
            if input.fill_now(&mut lines).unwrap() == Filled::NotReady {
                println!("this system cannot read a pipe without waiting: nothing tested");
                assert_eq!(input.fill(&mut lines).unwrap(), Filled::Bytes(15));
                return;
            }
            assert_eq!(lines.next_frame(), Some(Frame::Line(b"a line")));
            assert_eq!(lines.next_frame(), None);
            assert_eq!(input.fill_now(&mut lines).unwrap(), Filled::NotReady);
            writer.write_all(b"lf\nthe last").unwrap();
            drop(writer);
            assert_eq!(input.fill_now(&mut lines).unwrap(), Filled::Bytes(11));
            assert_eq!(lines.next_frame(), Some(Frame::Line(b"and a half")));
            assert_eq!(lines.next_frame(), None);
            assert_eq!(input.fill_now(&mut lines).unwrap(), Filled::End);
            assert_eq!(lines.next_frame(), Some(Frame::Line(b"the last")));
            assert_eq!(input.fill_now(&mut lines).unwrap(), Filled::End);
        }
    });
}

#[test]
fn lines_come_through_a_pipe_in_any_pieces() {
    within_a_minute(|| {
        let text = b"\xEF\xBB\xBFone\r\n\ntwo\nthree, too long\nfour";
        for cut in 0..text.len() {
            let (reader, mut writer) = pipe().unwrap();
            let (_waker, wake) = wake_pair().unwrap();
            let (mut input, mut lines) = (Input::new(reader.into()), Lines::new(5));
            let (first, second) = text.split_at(cut);
            let (mut seen, mut sent) = (Vec::new(), false);
            writer.write_all(first).unwrap();
            let mut writer = Some(writer);
            while let Some(fd) = input.poll_fd() {
                let ready = wait(Some(fd), &wake, None, Some(Duration::ZERO)).unwrap();
                if !ready.input {
                    if let (false, Some(writer)) = (sent, &mut writer) {
                        writer.write_all(second).unwrap();
                        sent = true;
                    } else {
                        writer = None;
                    }
                    continue;
                }
                input.fill(&mut lines).unwrap();
                while let Some(frame) = lines.next_frame() {
                    seen.push(match frame {
                        Frame::Line(line) => String::from_utf8(line.to_vec()).unwrap(),
                        Frame::TooLong => "(too long)".into(),
                    });
                }
            }
            assert_eq!(seen, ["one", "two", "(too long)", "four"], "cut at {cut}");
            assert_eq!(input.fill(&mut lines).unwrap(), Filled::End);
        }
    });
}

#[test]
fn a_non_blocking_input_without_bytes_is_not_the_end() {
    let (reader, mut writer) = pipe().unwrap();
    ioctl_fionbio(&reader, true).unwrap();
    let (mut input, mut lines) = (Input::new(reader.into()), Lines::new(100));
    assert_eq!(input.fill(&mut lines).unwrap(), Filled::NotReady);
    writer.write_all(b"a\n").unwrap();
    assert_eq!(input.fill(&mut lines).unwrap(), Filled::Bytes(2));
    assert_eq!(lines.next_frame(), Some(Frame::Line(b"a")));
}

#[test]
fn small_lines_to_a_reader_are_written_at_once() {
    let (mut output, mut reader, _wake) = output_to_pipe(1 << 20);
    for round in 0..1000 {
        let line = format!("answer {round}\n");
        output.hand_over(&mut line.clone());
        assert_eq!(output.queued_bytes(), 0);
        let mut back = vec![0; line.len()];
        reader.read_exact(&mut back).unwrap();
        assert_eq!(back, line.as_bytes());
    }
}

#[test]
fn an_unread_pipe_never_blocks_the_owner_and_loses_nothing() {
    within_a_minute(|| {
        let bound = 64 << 20;
        let (mut output, reader, wake) = output_to_pipe(bound);
        let count = hand_over_numbers(&mut output, 100_000_000);
        assert!(output.over_bound() && output.queued_bytes() > 99_000_000);
        assert_eq!(output.drain(Duration::from_millis(1)), Drained::TimedOut(output.queued_bytes()));
        assert_eq!(wait(None, &wake, output.poll_fd(), Some(Duration::ZERO)).unwrap(), Ready::default());

        let text = read_in_thread(reader);
        let ready = wait(None, &wake, output.poll_fd(), Some(LONG)).unwrap();
        assert!(ready.wake, "woken once the queue is back under its bound");
        assert!(output.queued_bytes() <= bound);
        assert_eq!(output.drain(LONG), Drained::All);
        assert_eq!(output.queued_bytes(), 0);
        drop(output);
        check_numbers(&text.join().unwrap(), count);
    });
}

#[test]
fn a_slow_reader_gets_inline_and_queued_lines_in_order() {
    within_a_minute(|| {
        let (mut output, mut reader, _wake) = output_to_pipe(1 << 20);
        let text = thread::spawn(move || {
            let (mut text, mut buf) = (Vec::new(), [0; 3000]);
            loop {
                match reader.read(&mut buf).unwrap() {
                    0 => return text,
                    n => text.extend_from_slice(&buf[..n]),
                }
                if text.len() % 7 == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut buf = String::new();
        for number in 0..200_000 {
            buf.push_str(&format!("line {number} {}\n", "=".repeat(number % 90)));
            if number % 13 == 0 {
                output.hand_over(&mut buf);
            }
        }
        output.hand_over(&mut buf);
        assert_eq!(output.drain(LONG), Drained::All);
        drop(output);
        check_numbers(&text.join().unwrap(), 200_000);
    });
}

#[test]
fn a_non_blocking_output_loses_nothing() {
    within_a_minute(|| {
        let (reader, writer) = pipe().unwrap();
        ioctl_fionbio(&writer, true).unwrap();
        let (mut output, _wake) = output_to(writer, 1 << 20);
        let count = hand_over_numbers(&mut output, 10_000_000);
        let text = read_in_thread(reader);
        assert_eq!(output.drain(LONG), Drained::All);
        drop(output);
        check_numbers(&text.join().unwrap(), count);
    });
}

#[test]
fn a_socket_is_as_good_as_a_pipe() {
    within_a_minute(|| {
        for non_blocking in [false, true] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(non_blocking).unwrap();
            let (mut output, wake) = output_to(ours, 1 << 20);
            let count = hand_over_numbers(&mut output, 10_000_000);
            let text = read_in_thread(theirs.try_clone().unwrap());
            assert_eq!(output.drain(LONG), Drained::All);
            theirs.shutdown(std::net::Shutdown::Both).unwrap();
            drop(theirs);
            assert!(wait(None, &wake, output.poll_fd(), Some(LONG)).unwrap().output_gone);
            check_numbers(&text.join().unwrap(), count);
        }
    });
}

#[test]
fn a_reader_that_goes_away_closes_the_output_and_wakes_the_owner() {
    within_a_minute(|| {
        // With nothing queued: the poll says so, and so does the next write.
        let (mut output, reader, wake) = output_to_pipe(1 << 20);
        drop(reader);
        assert!(wait(None, &wake, output.poll_fd(), Some(LONG)).unwrap().output_gone);
        output.hand_over(&mut "to nobody\n".to_owned());
        assert!(output.closed() && output.poll_fd().is_none());
        assert_eq!((output.queued_bytes(), output.drain(LONG)), (0, Drained::Closed));
        assert!(wait(None, &wake, None, Some(LONG)).unwrap().wake);
        output.hand_over(&mut "to nobody\n".to_owned());
        assert_eq!(output.queued_bytes(), 0);

        // With the thread stuck in a write.
        let (mut output, reader, wake) = output_to_pipe(usize::MAX);
        hand_over_numbers(&mut output, 5_000_000);
        drop(reader);
        assert_eq!(output.drain(LONG), Drained::Closed);
        assert!(wait(None, &wake, None, Some(LONG)).unwrap().wake);
        assert_eq!(output.queued_bytes(), 0);
    });
}

#[test]
fn a_wait_tells_what_is_so() {
    within_a_minute(|| {
        // A file is ready all the time.
        for file in [false, true] {
            let (reader, writer) = pipe().unwrap();
            let (output, out_reader, wake) = output_to_pipe(1 << 20);
            let input = match file {
                true => Input::new(std::fs::File::open("/dev/null").unwrap().into()),
                false => Input::new(reader.into()),
            };
            let told = || wait(input.poll_fd(), &wake, output.poll_fd(), Some(Duration::ZERO)).unwrap();
            assert_eq!(told(), Ready { input: file, ..Ready::default() });
            (&writer).write_all(b"line").unwrap();
            assert_eq!(told(), Ready { input: true, ..Ready::default() });
            drop(out_reader);
            assert_eq!(told(), Ready { input: true, output_gone: true, ..Ready::default() });
            drop(writer); // what was written is still there, and then the end
            assert_eq!(told(), Ready { input: true, output_gone: true, ..Ready::default() });
        }
        let (reader, writer) = pipe().unwrap();
        let (output, _out_reader, _) = output_to_pipe(1 << 20);
        let (waker, wake) = wake_pair().unwrap();
        let input = Input::new(reader.into());
        let told = |timeout| wait(input.poll_fd(), &wake, output.poll_fd(), timeout).unwrap();
        let later = thread::spawn(move || waker.wake());
        assert_eq!(told(None), Ready { wake: true, ..Ready::default() });
        later.join().unwrap();
        assert_eq!(told(Some(Duration::ZERO)), Ready::default());
        drop(writer); // an end without bytes
        assert_eq!(told(None), Ready { input: true, ..Ready::default() });
    });
}

#[test]
fn wakes_are_counted_once_and_none_is_lost() {
    within_a_minute(|| {
        let (waker, wake) = wake_pair().unwrap();
        for _ in 0..100_000 {
            waker.wake();
        }
        assert!(wait(None, &wake, None, None).unwrap().wake);
        assert_eq!(wait(None, &wake, None, Some(Duration::ZERO)).unwrap(), Ready::default());

        let (sender, messages) = mpsc::channel();
        for _ in 0..4 {
            let (sender, waker) = (sender.clone(), waker.clone());
            thread::spawn(move || {
                for number in 0..20_000 {
                    sender.send(number).unwrap();
                    waker.wake();
                }
            });
        }
        let mut got = 0;
        while got < 80_000 {
            assert!(wait(None, &wake, None, None).unwrap().wake);
            got += messages.try_iter().count();
        }
        drop(wake);
        waker.wake();
    });
}

const NOTICE: &str = " log lines dropped: stderr was not read";

fn written_and_dropped(text: &str) -> usize {
    text.lines()
        .map(|line| line.strip_suffix(NOTICE).map_or(1, |count| count.parse::<usize>().unwrap()))
        .sum()
}

#[test]
fn a_log_that_nobody_reads_drops_lines_and_says_how_many() {
    within_a_minute(|| {
        let (mut reader, writer) = pipe().unwrap();
        let log = StderrLog::to(writer, 64 * 1024);
        let subscriber = tracing_subscriber::fmt().with_writer(log.clone()).with_ansi(false).finish();
        tracing::subscriber::with_default(subscriber, || {
            for number in 0..20_000 {
                tracing::info!(number, "a line");
            }
        });
        assert!(!log.flush(Duration::from_millis(1)));
        assert!(log.dropped() > 0);

        // Lines written or counted as dropped: together they are all, however many notices there were.
        let text = thread::spawn(move || {
            let (mut text, mut buf) = (String::new(), [0; 64 * 1024]);
            while !text.ends_with('\n') || written_and_dropped(&text) < 20_000 {
                let n = reader.read(&mut buf).unwrap();
                text.push_str(std::str::from_utf8(&buf[..n]).unwrap());
            }
            (text, reader)
        });
        let (text, reader) = text.join().unwrap();
        assert!(log.flush(LONG));
        assert_eq!((written_and_dropped(&text), log.dropped()), (20_000, 0));
        assert!(text.contains(NOTICE));
        let second = text.lines().nth(1).unwrap();
        assert!(second.ends_with("a line number=1"), "{second}");

        // A closed stderr swallows.
        drop(reader);
        for _ in 0..1000 {
            writeln!(&log, "to nobody").unwrap();
        }
        assert!(log.flush(LONG));
    });
}

#[test]
fn only_the_protocol_reaches_the_client() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "stdio::child_that_takes_stdio", "--nocapture"])
        .env(CHILD, "1")
        .stdin(Child::piped())
        .stdout(Child::piped())
        .stderr(Child::piped())
        .spawn();
    let mut child = child.unwrap();
    child.stdin.take().unwrap().write_all(b"from the client\n").unwrap();
    let seen = child.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&seen.stdout), String::from_utf8_lossy(&seen.stderr));
    // The harness speaks before the descriptors are taken.
    assert!(out.ends_with("echo: from the client\n"), "{out}");
    assert!(!out.contains("noise"), "{out}");
    assert!(err.contains("noise by print") && err.contains("noise by a child"), "{err}");
    assert!(seen.status.success());
}

#[test]
fn descriptors_closed_at_start_are_survived() {
    let run = "exec \"$0\" --ignored --exact stdio::child_that_takes_stdio --nocapture <&- >&- 2>&-";
    let child =
        Command::new("sh").args(["-c", run]).arg(std::env::current_exe().unwrap()).env(CHILD, "1").status();
    assert!(child.unwrap().success());
}

#[test]
#[ignore = "the child of the tests above"]
fn child_that_takes_stdio() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let stdio = take_stdio().unwrap();
    println!("noise by print");
    assert!(Command::new("echo").arg("noise by a child").status().unwrap().success());
    let (waker, _wake) = wake_pair().unwrap();
    let mut output = Output::new(stdio.output, 1 << 20, waker);
    let (mut input, mut lines) = (Input::new(stdio.input), Lines::new(1000));
    while input.fill(&mut lines).unwrap() != Filled::End {
        while let Some(Frame::Line(line)) = lines.next_frame() {
            output.hand_over(&mut format!("echo: {}\n", std::str::from_utf8(line).unwrap()));
        }
    }
    assert!(!matches!(output.drain(LONG), Drained::TimedOut(_)));
    // fd 0 is empty now.
    assert_eq!(std::io::stdin().read(&mut [0; 8]).unwrap(), 0);
}

/// What the tests of the writer assume of the descriptors they make.
#[test]
fn a_dropped_output_closes_its_descriptor() {
    within_a_minute(|| {
        let (output, mut reader, _wake) = output_to_pipe(1 << 20);
        drop(output);
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0);
    });
}
