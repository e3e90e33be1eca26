//! Do README and the pages of `docs/` say what the daemon does? The tour, the commands, the tables, the links.
//!
//! `README_UPDATE=1 cargo test --test docs readme::` puts what came back, and the log, into the tour, and the tables that are
//! made from the schemas and the flags into their pages.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use sessiond::cli::flag_table;
use sessiond::protocol::schema::tables;
use sessiond::replay::{Options, run};

const FLAGS: [&str; 4] = ["--clock", "fixed:1700000000000+1000", "--ids", "sequential"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

const README: &str = "README.md";
const TUTORIAL: &str = "docs/tutorial.md";
const UPDATE_COMMAND: &str = "README_UPDATE=1 cargo test --test docs readme::";
const CLI: &str = "docs/cli.md";

/// The text of a page, named from the root on.
fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// The text between a fence of that kind and its end, for each such block.
fn blocks(text: &str, kind: &str) -> Vec<String> {
    let fence = format!("\n```{kind}\n");
    let parts = text.split(&fence).skip(1);
    parts.map(|part| part.split("```").next().unwrap().to_owned()).collect()
}

/// Puts other texts into the blocks of that kind.
fn with_blocks(text: &str, kind: &str, new: &[String]) -> String {
    let fence = format!("\n```{kind}\n");
    let mut parts = text.split(&fence);
    let mut out = parts.next().unwrap().to_owned();
    for (part, new) in parts.zip(new) {
        let (_, rest) = part.split_once("```").unwrap();
        out.push_str(&format!("{fence}{new}```{rest}"));
    }
    out
}

/// The rows of the table under a heading, as cells.
fn rows(text: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, section) = text.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// Runs the tour's conversation; the transcripts as they came, or the report of what differs.
fn replay(blocks: &[String], update: bool) -> Result<Vec<String>, String> {
    const MARK: &str = "# block\n";
    let title = format!("# The tour\n# args: --store jsonl:$STORE {}\n", FLAGS.join(" "));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tour.txt");
    fs::write(&file, format!("{title}{MARK}{}", blocks.join(MARK))).unwrap();
    let options = Options {
        command: Some(vec![env!("CARGO_BIN_EXE_sessiond").into(), "serve".into()]),
        update,
        timeout: Duration::from_secs(60),
    };
    let mut report = Vec::new();
    let summary = run(std::slice::from_ref(&file), &options, &mut report).unwrap();
    if summary.failed > 0 {
        return Err(String::from_utf8_lossy(&report).into_owned());
    }
    let text = fs::read_to_string(file).unwrap();
    Ok(text.split(MARK).skip(1).map(str::to_owned).collect())
}

/// Feeds lines to a daemon until its end; what it says.
fn serve(dir: &Path, flags: &[&str], lines: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sessiond"))
        .args(flags)
        .current_dir(dir)
        .env("SESSIOND_STORE", "jsonl:store")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let sent = lines.to_owned();
    let sender = std::thread::spawn(move || stdin.write_all(sent.as_bytes()));
    let reader = std::thread::spawn(move || {
        let mut said = String::new();
        stdout.read_to_string(&mut said).map(|_| said)
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                child.kill().unwrap();
                panic!("the daemon did not end");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    sender.join().unwrap().unwrap();
    assert!(status.success());
    reader.join().unwrap().unwrap()
}

fn sent(block: &str) -> String {
    block.lines().filter_map(|line| line.strip_prefix("> ")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_tour_comes_back_byte_for_byte() {
    let text = page(TUTORIAL);
    let tour = blocks(&text, "transcript");
    let update = std::env::var_os("README_UPDATE").is_some();
    let came = replay(&tour, update).unwrap_or_else(|report| panic!("\n{report}"));

    // The log that the tour ends with.
    let dir = tempfile::tempdir().unwrap();
    let crash = tour.iter().position(|block| block.starts_with("! kill")).unwrap();
    let (before, after) = tour.split_at(crash);
    serve(dir.path(), &FLAGS, &before.iter().map(|block| sent(block)).collect::<String>());
    serve(dir.path(), &FLAGS, &after.iter().map(|block| sent(block)).collect::<String>());
    let log = fs::read_to_string(dir.path().join("store/--tour--/tour/session.jsonl")).unwrap();

    if update {
        let text = with_blocks(&text, "transcript", &came);
        fs::write(root().join(TUTORIAL), with_blocks(&text, "log", &[log])).unwrap();
    } else {
        assert_eq!(blocks(&text, "log"), [log]);
    }
}

#[test]
fn the_first_command_feeds_the_tour_and_works_again() {
    let readme = page(README);
    // These two and no other.
    let commands = ["cargo run --release < examples/first-session.jsonl\n", "cargo test --all-features\n"];
    assert_eq!(blocks(&readme, "sh"), commands);
    let text = page(TUTORIAL);
    let example = fs::read_to_string(root().join("examples/first-session.jsonl")).unwrap();
    let tour = blocks(&text, "transcript");
    let first: Vec<_> = tour.iter().take_while(|block| !block.starts_with('!')).collect();
    assert_eq!(first.into_iter().map(|block| sent(block)).collect::<String>(), example);

    let dir = tempfile::tempdir().unwrap();
    let once = serve(dir.path(), &FLAGS, &example);
    assert_eq!(serve(dir.path(), &FLAGS, &example), once);
    let errors: Vec<Value> = once.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    // One refusal is part of the tour.
    assert_eq!(errors.iter().filter(|line| line.get("error").is_some()).count(), 1);

    // As the command runs it: a clock that moves, so that requests wait for storage behind each other.
    for _ in 0..2 {
        let said = serve(dir.path(), &[], &example);
        let lines = said.lines().map(|line| serde_json::from_str(line).unwrap());
        let (answers, _): (Vec<Value>, Vec<Value>) = lines.partition(|line: &Value| line.get("id").is_some());
        assert_eq!(answers.len(), example.lines().count());
        assert_eq!(answers.iter().filter(|line| line.get("error").is_some()).count(), 1, "{said}");
    }
}

#[test]
fn what_readme_shows_is_part_of_the_tour() {
    let tour = page(TUTORIAL);
    let lines: BTreeSet<String> =
        blocks(&tour, "transcript").iter().flat_map(|block| block.lines()).map(str::to_owned).collect();
    let shown = blocks(&page(README), "transcript").concat();
    assert!(shown.lines().count() > 2);
    for line in shown.lines() {
        assert!(lines.contains(line), "{line}");
    }
}

/// Puts a table between its marks.
fn with_table(text: &str, name: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(&format!("<!-- table: {name} -->\n"))?;
    let (_, after) = rest.split_once("<!-- end -->").unwrap();
    Some(format!("{before}<!-- table: {name} -->\n{table}<!-- end -->{after}"))
}

#[test]
fn the_tables_of_what_the_schemas_and_the_help_say_are_current() {
    for (name, table) in tables().into_iter().chain([("flags", flag_table())]) {
        let (page_name, text, made) = pages()
            .into_iter()
            .find_map(|page_name| {
                let text = page(&page_name);
                with_table(&text, name, &table).map(|made| (page_name, text, made))
            })
            .unwrap_or_else(|| panic!("no page has the table of {name}"));
        if std::env::var_os("README_UPDATE").is_some() {
            fs::write(root().join(page_name), made).unwrap();
        } else {
            assert!(text == made, "{page_name}: {name} is stale; run: {UPDATE_COMMAND}\n{table}");
        }
    }
}

#[test]
fn short_help_fits_a_terminal_and_long_help_says_more() {
    let told = |args: &[&str]| {
        let told = Command::new(env!("CARGO_BIN_EXE_sessiond")).args(args).output().unwrap();
        assert!(told.status.success() && told.stderr.is_empty(), "{args:?}");
        String::from_utf8(told.stdout).unwrap()
    };
    for command in [None, Some("serve"), Some("replay"), Some("schema"), Some("verify"), Some("repair")] {
        let told = |flag| told(&command.into_iter().chain([flag]).collect::<Vec<_>>());
        let (short, long) = (told("-h"), told("--help"));
        let widest = short.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= 80, "{command:?}: {widest}");
        assert!(short.lines().count() <= 24, "{short}");
        assert!(long.len() > short.len() || command == Some("schema"), "{long}");
    }
}

/// Flags of `serve` with a range: the least and the most that they take, and how both pages say so.
const RANGES: [(&str, u64, u64, &str); 6] = [
    ("sync-window", 0, 60_000, "; 0 to 60,000"),
    ("max-message-bytes", 64 << 10, 1 << 30, "; 64 KiB to 1 GiB"),
    ("max-depth", 8, 10_000, "; 8, which messages need, to 10,000"),
    ("max-queued-bytes", 4 << 10, 1 << 40, "; 4 KiB to 1 TiB"),
    ("max-batch-events", 1, 1 << 30, "; 1 to 2^30"),
    ("max-live-sessions", 1, 1 << 30, "; 1 to 2^30"),
];

#[test]
fn a_flag_takes_what_the_pages_say_and_refuses_the_rest_with_that() {
    let sessiond = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sessiond"));
        let done = command.arg("serve").args(args).stdin(Stdio::null()).output().unwrap();
        (done.status.code(), String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap())
    };
    let (_, help, _) = sessiond(&["--help"]);
    let table = rows(&page(CLI), "Limits and flags");
    for (flag, least, most, said) in RANGES {
        let flag = format!("--{flag}");
        let helped = help.lines().skip_while(|line| !line.contains(&flag));
        let helped: String = helped.take_while(|line| !line.is_empty()).collect();
        assert!(helped.contains(said), "{flag}: {helped}");
        let row = table.iter().find(|row| row.first().unwrap().contains(&flag)).unwrap();
        assert!(row.last().unwrap().ends_with(said), "{row:?}");
        let given = |value: u64| sessiond(&["--store", "memory:", &flag, &value.to_string()]);
        assert_eq!((given(least).0, given(most).0), (Some(0), Some(0)), "{flag}");
        for refused in [least.checked_sub(1), Some(most + 1)].into_iter().flatten() {
            let (code, _, told) = given(refused);
            assert_eq!(code, Some(2), "{flag} {refused}");
            assert!(told.contains(&format!("from {least} to {most}")) && told.contains(&flag), "{told}");
            assert!(told.contains(&format!("'{refused}'")), "{told}");
        }
        let (code, _, told) = sessiond(&[&flag, "many"]);
        assert!(code == Some(2) && told.contains(&flag), "{told}");
    }
}

#[test]
fn the_example_without_a_package_runs() {
    let script = root().join("examples/native.py");
    let daemon = [env!("CARGO_BIN_EXE_sessiond"), "serve", "--store", "memory:"];
    let Ok(ran) = Command::new("python3").arg(script).args(daemon).output() else {
        return eprintln!("python3 is not here: examples/native.py was not run");
    };
    let told = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{told}{}", String::from_utf8_lossy(&ran.stderr));
    assert!(told.contains("committed at 1 with the id msg-"), "{told}");
}

/// A folder without the data that is looked for is no run in which nothing failed.
#[test]
fn the_scripts_say_which_folder_they_expect() {
    let (empty, daemon) = (tempfile::tempdir().unwrap(), env!("CARGO_BIN_EXE_sessiond"));
    let given = |program: &str, script: &str, more: &[&str]| {
        let mut command = Command::new(program);
        let ran = command.arg(root().join(script)).arg(empty.path()).args(more).output().ok()?;
        let told = [ran.stdout, ran.stderr].concat();
        Some((ran.status.code(), String::from_utf8(told).unwrap()))
    };
    for (program, script, more, folder) in [
        ("python3", "tests/clients/corpus.py", &["schema.json", daemon][..], "../shared/corpus/fixtures"),
        ("bash", "tests/clients/run", &[], "../shared/clients"),
        ("bash", "tests/peer/run", &[daemon], "../shared/peer"),
    ] {
        let Some((code, told)) = given(program, script, more) else {
            eprintln!("{program} is not here: {script} was not run");
            continue;
        };
        assert_eq!(code, Some(64), "{script}: {told}");
        assert!(told.contains(folder) && told.contains(empty.path().to_str().unwrap()), "{script}: {told}");
    }
}

/// The most lines of the two pages that a newcomer begins with.
const LONGEST: [(&str, usize); 2] = [(README, 150), ("ARCHITECTURE.md", 220)];

#[test]
fn the_first_pages_are_short() {
    for (name, most) in LONGEST {
        let lines = page(name).lines().count();
        assert!(lines <= most, "{name} has {lines} lines; {most} is the most");
    }
}

/// The pages at the root, and every page below `docs/`, from the root on.
fn pages() -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            if entry.file_type().unwrap().is_dir() {
                walk(&entry.path(), found);
            } else if entry.path().extension().is_some_and(|extension| extension == "md") {
                found.push(entry.path());
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join("docs"), &mut found);
    found.sort();
    let below = found.iter().map(|path| path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned());
    let first = [README, "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"];
    first.into_iter().map(str::to_owned).chain(below).collect()
}

/// A page without its fenced blocks.
fn prose(text: &str) -> String {
    let mut is_fenced = false;
    let mut prose = String::new();
    for line in text.lines() {
        let is_fence = line.starts_with("```");
        is_fenced ^= is_fence;
        if !is_fenced && !is_fence {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose
}

/// Where the links of a page lead: what stands between `](` and `)`.
fn links(text: &str) -> Vec<String> {
    let targets = text.split("](").skip(1);
    targets.map(|rest| rest.split(')').next().unwrap().to_owned()).collect()
}

/// The names by which links reach the headings of a page: lower case, `-` for a space, without marks.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let kept = |char: &char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_');
    let named = |line: &str| -> String {
        let heading = line.trim_start_matches('#').trim();
        heading.to_lowercase().chars().filter(kept).map(|char| if char == ' ' { '-' } else { char }).collect()
    };
    headings.map(named).collect()
}

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading_that_exist() {
    let (mut wrong, mut met) = (Vec::new(), 0);
    for name in pages() {
        let text = prose(&page(&name));
        let folder = root().join(&name).parent().unwrap().to_owned();
        for link in links(&text).iter().filter(|link| !link.contains("://")) {
            met += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { root().join(&name) } else { folder.join(path) };
            if !target.exists() {
                wrong.push(format!("{name}: {link} leads nowhere"));
            } else if !anchor.is_empty()
                && !anchors(&prose(&fs::read_to_string(&target).unwrap())).iter().any(|known| known == anchor)
            {
                wrong.push(format!("{name}: {link} names no heading there"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(met > 20, "only {met} links were seen: the reader of links is blind");
}

#[test]
fn every_page_of_docs_is_reached_from_readme_and_architecture() {
    let reached: BTreeSet<String> = LONGEST.iter().flat_map(|(name, _)| links(&prose(&page(name)))).collect();
    let is_reached = |name: &String| reached.iter().any(|link| link.split('#').next() == Some(name));
    let lost: Vec<_> =
        pages().into_iter().filter(|name| name.starts_with("docs/") && !is_reached(name)).collect();
    assert!(lost.is_empty(), "no link leads to {lost:?}");
}
