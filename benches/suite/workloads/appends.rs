//! Appends sent without waiting: small, chunks of tokens, large, in batches, over many sessions.

use crate::Suite;
use crate::process::{Contender, Process, Took};
use crate::report::{Bound, Row};
use crate::script::{Script, append, append_message, message, open_session, open_step, request};
use crate::series::{Series, interleave};

/// The floor and the daemon on both stores.
fn contenders(suite: &Suite) -> Vec<Contender> {
    vec![Contender::Floor, Contender::Memory, Contender::Jsonl(suite.scratch.path().join("store"))]
}

/// A row for each contender, the first of which is the floor.
fn rows(contenders: &[Contender], series: &[Series], unit: &'static str) -> Vec<Row> {
    let rows = contenders.iter().zip(series).map(|(who, one)| {
        let mut row = Row::new(who);
        row.rate = Some((one.rate(), unit));
        row.ratio = Some((one.ratio_to(&series[0]), "floor"));
        row.cpu = Some(one.cpu());
        row
    });
    rows.collect()
}

fn measure(
    suite: &Suite,
    contenders: &[Contender],
    operations: usize,
    run: impl FnMut(&Contender) -> Took,
) -> Vec<Series> {
    let runs = interleave(suite.options.rounds(), contenders, run);
    runs.into_iter().map(|runs| Series::of(runs, operations as f64)).collect()
}

/// Floods with a script, and counts with a short form of it.
fn flooded(suite: &Suite, name: &str, script: &Script, counted: &Script, unit: &'static str) -> Vec<Row> {
    let contenders = contenders(suite);
    let series = flooded_in_turn(suite, &contenders, script);
    let mut rows = rows(&contenders, &series, unit);
    for (who, row) in contenders.iter().zip(&mut rows) {
        row.instructions = counted.count(suite, who, &format!("{name}-{}", short(who)));
    }
    rows
}

/// In so many pieces a script is sent, floor and daemon in turn.
const PIECES: usize = 10;

fn flooded_in_turn(suite: &Suite, contenders: &[Contender], script: &Script) -> Vec<Series> {
    let runs: Vec<Vec<Took>> =
        (0..suite.options.rounds()).flat_map(|_| script.flood_in_turn(suite, contenders, PIECES)).collect();
    let operations = (script.operations / PIECES) as f64;
    let of = |at: usize| Series::of(runs.iter().map(move |run| run[at]), operations);
    (0..contenders.len()).map(of).collect()
}

fn short(who: &Contender) -> String {
    who.to_string().trim_end_matches(':').to_owned()
}

pub fn pipelined(suite: &Suite) -> Vec<Row> {
    let build = |appends: usize| {
        let mut script = Script { opening: open_session("s"), ..Script::default() };
        (1..=appends).for_each(|n| script.push(&append_message(n, "s"), 2, 1));
        script
    };
    let (script, counted) = (build(suite.options.size(400_000, 100_000)), build(10_000));
    let mut contenders = contenders(suite);
    let mut series = flooded_in_turn(suite, &contenders, &script);
    if suite.options.peer.is_some() {
        let script = build(suite.options.size(40_000, 20_000));
        let persist = Some(suite.scratch.path().join("peer"));
        let peers = [Contender::Peer { persist: None }, Contender::Peer { persist }];
        let runs = interleave(suite.options.rounds(), &peers, |who| warmed(suite, &script, who));
        series.extend(runs.into_iter().map(|runs| Series::of(runs, after_warming(&script) as f64)));
        contenders.extend(peers);
    }
    let mut rows = rows(&contenders, &series, "appends");
    for (who, row) in contenders.iter().zip(&mut rows).take(3) {
        row.instructions = counted.count(suite, who, &format!("pipelined-{}", short(who)));
        row.figures.push(("request", script.bytes() as f64 / script.operations as f64, "B"));
    }
    let (memory, jsonl) = (&series[1], &series[2]);
    let mut rows = rows.into_iter();
    let mut next = || rows.next().unwrap();
    let floor = next();
    let row = next();
    let count = row.instructions;
    let row = row
        .gate("instructions an append", count, Bound::AtMost(3_900.0))
        .target("rate to the floor's", memory.ratio_to(&series[0]), Bound::AtLeast(0.4))
        .target("processor time to the floor's", memory.cpu_ratio_to(&series[0]), Bound::AtMost(3.0));
    let on_memory = match series.get(3) {
        Some(peer) => {
            row.target("rate to the reference's", memory.rate() / peer.rate(), Bound::AtLeast(25.0))
        }
        None => row,
    };
    let row = next();
    let count = row.instructions;
    let row = row.gate("instructions an append", count, Bound::AtMost(4_100.0)).target(
        "rate to memory:'s",
        jsonl.ratio_to(memory),
        Bound::AtLeast(0.75),
    );
    let on_jsonl = match series.get(4) {
        Some(peer) => row.figure("to the reference with files", jsonl.rate() / peer.rate(), ""),
        None => row,
    };
    [floor, on_memory, on_jsonl].into_iter().chain(rows).collect()
}

/// The same appends by clients that spell them in other ways than most: little or nothing is read from its front then.
pub fn spellings(suite: &Suite) -> Vec<Row> {
    let reordered = |n: usize| {
        format!(
            r#"{{"id":{n},"jsonrpc":"2.0","params":{{"type":"user/message","surfaceOp":"append","data":{},"sessionId":"s"}},"method":"session/append"}}"#,
            message(n)
        )
    };
    // No two payloads have the same members: nothing is learnt from one for the next.
    let unlike =
        |n: usize| append_message(n, "s").replacen(r#""source""#, &format!(r#""m{n}":1,"source""#), 1);
    // As printers that put a space behind each comma and colon; the text gets one more too.
    let spaced = |n: usize| append_message(n, "s").replace(',', ", ").replace(':', ": ");
    let spellings: [(&str, &dyn Fn(usize) -> String); 4] = [
        ("memory:", &|n| append_message(n, "s")),
        ("memory:, other members", &unlike),
        ("memory:, other order", &reordered),
        ("memory:, spaces", &spaced),
    ];
    let build = |line: &dyn Fn(usize) -> String, appends: usize| {
        let mut script = Script { opening: open_session("s"), ..Script::default() };
        (1..=appends).for_each(|n| script.push(&line(n), 2, 1));
        script
    };
    let operations = suite.options.size(200_000, 50_000);
    let scripts: Vec<(usize, Script)> =
        spellings.iter().map(|(_, line)| build(line, operations)).enumerate().collect();
    let runs =
        interleave(suite.options.rounds(), &scripts, |(_, script)| script.flood(suite, &Contender::Memory));
    let series: Vec<Series> = runs.into_iter().map(|runs| Series::of(runs, operations as f64)).collect();
    let mut counted = None;
    let rows = spellings.iter().zip(&series).enumerate().map(|(at, ((name, line), one))| {
        let mut row = Row::new(name);
        row.rate = Some((one.rate(), "appends"));
        row.ratio = Some((one.ratio_to(&series[0]), "the first"));
        row.cpu = Some(one.cpu());
        row.instructions = build(line, 10_000).count(suite, &Contender::Memory, &format!("spelling-{at}"));
        let count = row.instructions;
        let first = *counted.get_or_insert(count);
        match at {
            0 => row.gate("instructions an append", count, Bound::AtMost(3_900.0)),
            // Every space is taken out of what is kept.
            3 => row.gate("instructions an append", count, Bound::AtMost(9_500.0)),
            _ => {
                let ratio = count.zip(first).map(|(count, first)| count / first);
                row.gate("instructions to the first's", ratio, Bound::AtMost(1.5))
            }
        }
    });
    rows.collect()
}

/// Operations of a script that are left when its first quarter has warmed a process.
fn after_warming(script: &Script) -> usize {
    script.operations - script.operations / 4
}

/// The reference once its code is compiled: the first quarter of the script does not count.
fn warmed(suite: &Suite, script: &Script, who: &Contender) -> Took {
    let who = who.fresh();
    let mut process = Process::start(suite, &who);
    script.open(&who, &mut process);
    let pieces = script.pieces(script.ends.len() / 4, true);
    let (first, lines) = pieces[0];
    process.flood(first, lines);
    let lines = pieces[1..].iter().map(|(_, lines)| lines).sum();
    let rest: Vec<&[u8]> = pieces[1..].iter().map(|&(piece, _)| piece).collect();
    let took = process.flood_in_writes(&rest, lines);
    process.kill();
    took
}

fn chunk_script(chunks: usize) -> Script {
    let mut script = Script { opening: open_step("s"), ..Script::default() };
    for n in 0..chunks {
        let data =
            format!(r#"{{"turn":1,"step":1,"chunk":{{"type":"text-delta","index":0,"text":" token{n}"}}}}"#);
        script.push(&append(n, "s", "assistant/chunk", &data, false), 2, 1);
    }
    script
}

/// One write for each chunk, as a client does that passes on what its model streams; none is waited for.
pub fn chunks_singly(suite: &Suite) -> Vec<Row> {
    let script = chunk_script(suite.options.size(100_000, 30_000));
    let contenders = contenders(suite);
    let series = measure(suite, &contenders, script.operations, |who| {
        let who = who.fresh();
        let mut process = Process::start(suite, &who);
        script.open(&who, &mut process);
        let pieces = script.pieces(1, who.is_store());
        let pieces: Vec<&[u8]> = pieces.into_iter().map(|(piece, _)| piece).collect();
        let took = process.flood_in_writes(&pieces, script.lines_of(&who));
        process.kill();
        took
    });
    rows(&contenders, &series, "chunks")
}

/// Bursts of 32 chunks, each awaited before the next.
pub fn chunks_in_bursts(suite: &Suite) -> Vec<Row> {
    const BURST: usize = 32;
    let run = |who: &Contender, process: &mut Process, script: &Script| {
        for (piece, lines) in script.pieces(BURST, who.is_store()) {
            process.write(piece);
            process.await_lines(lines);
        }
    };
    let script = chunk_script(suite.options.size(160_000, 32_000));
    let contenders = contenders(suite);
    let series = measure(suite, &contenders, script.operations, |who| {
        let who = who.fresh();
        let mut process = Process::start(suite, &who);
        script.open(&who, &mut process);
        let took = process.measured(|process| run(&who, process, &script));
        process.kill();
        took
    });
    let mut rows = rows(&contenders, &series, "chunks");
    let short_script = chunk_script(BURST * 200);
    for (who, row) in contenders.iter().zip(&mut rows) {
        let who = who.fresh();
        let Some(mut process) = Process::start_counted(suite, &who) else { continue };
        short_script.open(&who, &mut process);
        let name = format!("bursts-{}", short(&who));
        let count = process.instructions(&name, |process| run(&who, process, &short_script));
        row.instructions = count.map(|count| count as f64 / short_script.operations as f64);
        process.kill();
    }
    rows
}

/// A call and its result of 1 MiB, again and again.
pub fn tool_results(suite: &Suite) -> Vec<Row> {
    let text = "A line of what a tool has found in a file.\\n".repeat((1 << 20) / 44);
    let build = |results: usize| {
        let mut script = Script { opening: open_step("s"), ..Script::default() };
        for n in 0..results {
            let step = r#""turn":1,"step":1"#;
            let call = format!(r#"{{{step},"callId":"c{n}","name":"read","arguments":"{{}}"}}"#);
            script.push(&append(n, "s", "tool/call", &call, false), 2, 0);
            let content = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
            let block = format!(r#"[{{"type":"tool-result","toolCallId":"c{n}","content":{content}}}]"#);
            let source = format!(r#"{{"kind":"tool","callId":"c{n}"}}"#);
            let message = format!(r#"{{"id":"r{n}","role":"user","content":{block},"source":{source}}}"#);
            let result = format!(r#"{{{step},"message":{message}}}"#);
            script.push(&append(n, "s", "tool/result", &result, true), 2, 1);
        }
        script
    };
    flooded(suite, "tool-results", &build(suite.options.size(100, 40)), &build(8), "results")
}

/// `session/append_batch` of 100 messages.
pub fn batches(suite: &Suite) -> Vec<Row> {
    const BATCH: usize = 100;
    let build = |batches: usize| {
        let mut script = Script { opening: open_session("s"), ..Script::default() };
        for n in 0..batches {
            let event = |at: usize| {
                let data = message(1 + n * BATCH + at);
                format!(r#"{{"type":"user/message","data":{data},"surfaceOp":"append"}}"#)
            };
            let events: Vec<String> = (0..BATCH).map(event).collect();
            let more = format!(r#","events":[{}]"#, events.join(","));
            script.push(&request(n, "append_batch", "s", &more), BATCH + 1, BATCH);
        }
        script
    };
    flooded(suite, "batches", &build(suite.options.size(3_000, 800)), &build(60), "events")
}

/// Appends to 100 sessions in turn.
pub fn sessions(suite: &Suite) -> Vec<Row> {
    const SESSIONS: usize = 100;
    let build = |appends: usize| {
        let opening = (0..SESSIONS).flat_map(|n| open_session(&format!("s{n}"))).collect();
        let mut script = Script { opening, ..Script::default() };
        for n in 1..=appends {
            script.push(&append_message(n, &format!("s{}", n % SESSIONS)), 2, 1);
        }
        script
    };
    flooded(suite, "sessions", &build(suite.options.size(200_000, 60_000)), &build(10_000), "appends")
}
