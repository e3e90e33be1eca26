//! The flags of `serve` as the table of `docs/cli.md`.

use clap::{Arg, CommandFactory};

use super::command::Cli;

/// The table, as Markdown: what `sessiond serve --help` says.
pub fn flag_table() -> String {
    let mut cli = Cli::command();
    cli.build();
    let flags = cli.find_subcommand("serve").into_iter().flat_map(clap::Command::get_arguments);
    let rows = flags.filter(|flag| !flag.is_hide_set()).filter_map(row);
    ["| flag | default | |\n|---|---|---|\n".to_owned()].into_iter().chain(rows).collect()
}

fn row(flag: &Arg) -> Option<String> {
    let choices = flag.get_possible_values();
    let value = match flag.get_value_names() {
        _ if !flag.get_action().takes_values() => String::new(),
        _ if !choices.is_empty() => {
            format!(" {}", choices.iter().map(|choice| choice.get_name()).collect::<Vec<_>>().join("\\|"))
        }
        names => names.into_iter().flatten().map(|name| format!(" {name}")).collect(),
    };
    let default = flag.get_default_values().first().map(|default| in_units(&default.to_string_lossy()));
    let help = flag.get_long_help().or(flag.get_help())?.to_string();
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    Some(format!("| `--{}{value}` | {} | {help} |\n", flag.get_long()?, default.unwrap_or_default()))
}

/// Whole MiB as such.
fn in_units(default: &str) -> String {
    const MIB: u64 = 1 << 20;
    match default.parse::<u64>() {
        Ok(bytes) if bytes >= MIB && bytes % MIB == 0 => format!("{} MiB", bytes / MIB),
        _ => default.to_owned(),
    }
}
