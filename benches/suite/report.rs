//! Rows, targets, the table and the JSON file.

use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::counted;
use crate::options::Options;

/// One contender in one workload.
#[derive(Debug, Default)]
pub struct Row {
    pub case: String,
    /// Per second, with its unit.
    pub rate: Option<(f64, &'static str)>,
    /// To the named contender's rate.
    pub ratio: Option<(f64, &'static str)>,
    /// Microseconds of processor time for an operation.
    pub cpu: Option<f64>,
    /// For an operation.
    pub instructions: Option<f64>,
    /// Other figures: what, how much, unit.
    pub figures: Vec<(&'static str, f64, &'static str)>,
    pub targets: Vec<Target>,
}

/// A bound on a figure.
#[derive(Debug)]
pub struct Target {
    pub what: &'static str,
    pub value: f64,
    pub bound: Bound,
    /// Whether it repeats from run to run, so that a miss is a fault and no weather.
    pub is_gate: bool,
}

#[derive(Clone, Copy, Debug)]
pub enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtMost(limit) => self.value <= limit,
            Bound::AtLeast(limit) => self.value >= limit,
        }
    }

    fn text(&self) -> String {
        let (sign, limit) = match self.bound {
            Bound::AtMost(limit) => ("<=", limit),
            Bound::AtLeast(limit) => (">=", limit),
        };
        let verdict = if self.is_met() { "met" } else { "MISSED" };
        let kind = if self.is_gate { "gate" } else { "report" };
        format!("{verdict:<7}{kind:<7}{}: {} {sign} {}", self.what, figure(self.value), figure(limit))
    }
}

impl Row {
    pub fn new(case: impl ToString) -> Self {
        Self { case: case.to_string(), ..Self::default() }
    }

    pub fn figure(mut self, what: &'static str, value: f64, unit: &'static str) -> Self {
        self.figures.push((what, value, unit));
        self
    }

    /// A target that repeats, where its figure was counted.
    pub fn gate(mut self, what: &'static str, value: Option<f64>, bound: Bound) -> Self {
        self.targets.extend(value.map(|value| Target { what, value, bound, is_gate: true }));
        self
    }

    /// A target of this run.
    pub fn target(mut self, what: &'static str, value: f64, bound: Bound) -> Self {
        self.targets.push(Target { what, value, bound, is_gate: false });
        self
    }

    fn json(&self, workload: &str) -> Value {
        let figures = self.figures.iter();
        let figures: Vec<Value> =
            figures.map(|(what, value, unit)| json!({"what": what, "value": value, "unit": unit})).collect();
        let targets = self.targets.iter().map(|target| {
            let (sense, limit) = match target.bound {
                Bound::AtMost(limit) => ("atMost", limit),
                Bound::AtLeast(limit) => ("atLeast", limit),
            };
            let kind = if target.is_gate { "gate" } else { "report" };
            json!({"what": target.what, "value": target.value, sense: limit, "kind": kind, "met": target.is_met()})
        });
        json!({
            "workload": workload,
            "case": self.case,
            "rate": self.rate.map(|(rate, unit)| json!({"value": rate, "unit": unit})),
            "ratio": self.ratio.map(|(ratio, to)| json!({"value": ratio, "to": to})),
            "cpuMicros": self.cpu,
            "instructions": self.instructions,
            "figures": figures,
            "targets": targets.collect::<Vec<_>>(),
        })
    }
}

/// All rows of a run.
pub struct Report {
    begun: Instant,
    load_before: String,
    only_gates: bool,
    rows: Vec<(&'static str, Row)>,
}

impl Report {
    pub fn begin(options: &Options) -> Self {
        let load_before = load();
        println!("{} processors, load {load_before}; rounds: {}", processors(), options.rounds());
        if options.counts() && !counted::is_installed() {
            println!("no valgrind here: instructions are not counted and their gates not checked");
        }
        println!(
            "\n{:<34}{:>16}{:>22}{:>11}{:>14}  other figures",
            "", "rate", "ratio", "CPU us/op", "instr./op"
        );
        Self { begun: Instant::now(), load_before, only_gates: options.gate, rows: Vec::new() }
    }

    pub fn add(&mut self, workload: &'static str, rows: Vec<Row>, took: Duration) {
        println!("{workload} ({:.0} s)", took.as_secs_f64());
        for mut row in rows {
            row.targets.retain(|target| target.is_gate || !self.only_gates);
            let rate = row.rate.map_or_else(String::new, |(rate, unit)| format!("{} {unit}/s", figure(rate)));
            let ratio =
                row.ratio.map_or_else(String::new, |(ratio, to)| format!("{} of {to}", figure(ratio)));
            let number = |value: Option<f64>| value.map_or_else(String::new, figure);
            let figures =
                row.figures.iter().map(|(what, value, unit)| format!("{what} {} {unit}", figure(*value)));
            println!(
                "  {:<32}{rate:>16}{ratio:>22}{:>11}{:>14}  {}",
                row.case,
                number(row.cpu),
                number(row.instructions),
                figures.collect::<Vec<_>>().join(", "),
            );
            for target in &row.targets {
                println!("      {}", target.text());
            }
            self.rows.push((workload, row));
        }
    }

    /// Writes the file, and fails only over gates and where they were asked for.
    pub fn end(self, options: &Options) -> ExitCode {
        let rows: Vec<Value> = self.rows.iter().map(|(workload, row)| row.json(workload)).collect();
        let whole = json!({
            "processors": processors(),
            "loadBefore": self.load_before,
            "loadAfter": load(),
            "seconds": self.begun.elapsed().as_secs_f64(),
            "rounds": options.rounds(),
            "quick": options.quick,
            "instructionsCounted": options.counts() && counted::is_installed(),
            "rows": rows,
        });
        let text = serde_json::to_string_pretty(&whole).unwrap_or_default() + "\n";
        match fs::write(&options.json, text) {
            Ok(()) => println!("\nfigures: {}", options.json.display()),
            Err(error) => println!("\n{} cannot be written: {error}", options.json.display()),
        }
        let targets =
            || self.rows.iter().flat_map(|(name, row)| row.targets.iter().map(move |t| (name, row, t)));
        let missed: Vec<_> = targets().filter(|(_, _, target)| !target.is_met()).collect();
        println!("targets: {} met, {} missed", targets().count() - missed.len(), missed.len());
        for (workload, row, target) in &missed {
            println!("  {workload}, {}: {}", row.case, target.text());
        }
        let gates = missed.iter().filter(|(_, _, target)| target.is_gate).count();
        if options.gate && gates > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("unknown").to_owned()
}

/// A number with as many digits as tell something.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1e7 => format!("{:.1}M", value / 1e6),
        size if size >= 1e5 => format!("{:.0}k", value / 1e3),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}
