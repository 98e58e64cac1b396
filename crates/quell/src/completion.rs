//! `quell completions`: what makes a shell complete commands and options, and names that only the machine knows.
//!
//! ```text
//!   quell run <Tab> ──► the script of clap_complete, and beside it ──► quell complete-values experiments
//! ```

use crate::command::{Command, told_parser};
use crate::failure::Failure;
use crate::options::choice;
use crate::text::hand_out;
use clap::Args;
use clap_complete::Shell;
use quell_report::compare::figures as compared;
use quell_report::figures;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_parser = choice([
        ("bash", "With the package bash-completion", Shell::Bash),
        ("zsh", "From a folder of its fpath, as _quell", Shell::Zsh),
        ("fish", "From its folder completions, as quell.fish", Shell::Fish),
    ]))]
    pub shell: Shell,
}

pub fn completions(args: &CompletionsArgs, commands: &[Command]) -> Result<ExitCode, Failure> {
    hand_out(&script(args.shell, commands)).map(|()| ExitCode::SUCCESS)
}

/// What names are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    Experiments,
    Runs,
    Figures,
    Devices,
    Checks,
}

#[derive(Debug, Args)]
pub struct ValuesArgs {
    /// What names are of
    #[arg(value_parser = choice([
        ("experiments", "Built in", NameKind::Experiments),
        ("runs", "In the folder runs", NameKind::Runs),
        ("figures", "Of quell plot", NameKind::Figures),
        ("devices", "Of this machine", NameKind::Devices),
        ("checks", "Of quell doctor", NameKind::Checks),
    ]))]
    pub kind: NameKind,
}

/// Prints names, one a line; none where there are none: a shell asks.
pub fn values(args: &ValuesArgs) -> Result<ExitCode, Failure> {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let names: Vec<String> = match args.kind {
        NameKind::Experiments => owned(&quell_experiment::builtin::ALL.map(|(name, _)| name)),
        NameKind::Runs => {
            let runs = quell_store::list(std::path::Path::new("runs")).unwrap_or_default();
            runs.into_iter().map(|run| run.name).collect()
        }
        NameKind::Figures => {
            let all = figures::NAMES.iter().chain(&compared::NAMES).map(|figure| figure.name);
            owned(&all.chain(["sweep"]).collect::<Vec<_>>())
        }
        NameKind::Devices => {
            let devices = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
            devices.filter_map(|device| device.file_name().into_string().ok()).collect()
        }
        NameKind::Checks => {
            owned(&quell_doctor::CATALOGUE.iter().map(|check| check.name).collect::<Vec<_>>())
        }
    };
    hand_out((names.join("\n") + "\n").as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Beside what clap's script completes, names: by the option before, else by the command.
const BASH: &str = r#"
_quell_names() {
    _quell "$@"
    [[ $2 == -* ]] && return
    local kind=
    case "$3" in
        --figure) kind=figures ;;
        --dev) kind=devices ;;
        --explain | --until) kind=checks ;;
        --only) [[ ${COMP_WORDS[1]} == doctor ]] && kind=checks ;;
        -*) ;;
        *)
            case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in
                run\ * | lab\ run | lab\ show | lab\ check | lab\ exec | lab\ shell) kind=experiments ;;
                show\ * | open\ * | plot\ * | data\ export) kind=runs ;;
                tree\ *) kind=devices ;;
            esac ;;
    esac
    [[ -n $kind ]] && COMPREPLY+=($(compgen -W "$("$1" complete-values $kind 2>/dev/null)" -- "$2"))
    return 0
}
complete -F _quell_names -o bashdefault -o default quell
"#;

const FISH: &str = r#"
complete -c quell -n "__fish_seen_subcommand_from run check exec shell" -f -a "(quell complete-values experiments)"
complete -c quell -n "__fish_seen_subcommand_from show open plot" -f -a "(quell complete-values runs)"
complete -c quell -n "__fish_seen_subcommand_from plot" -l figure -x -a "(quell complete-values figures)"
complete -c quell -n "__fish_seen_subcommand_from tree" -f -a "(quell complete-values devices)"
complete -c quell -n "__fish_seen_subcommand_from shape" -l dev -x -a "(quell complete-values devices)"
complete -c quell -n "__fish_seen_subcommand_from doctor" -l explain -x -a "(quell complete-values checks)"
complete -c quell -n "__fish_seen_subcommand_from doctor" -l only -x -a "(quell complete-values checks)"
"#;

/// What a line of clap's script for zsh is about, by its words, and whose names it takes.
const ZSH: [(&str, &str); 7] = [
    ("experiment -- ", "experiments"),
    ("run -- The run", "runs"),
    ("runs -- The runs", "runs"),
    ("device -- ", "devices"),
    (":DEV:", "devices"),
    ("--figure=", "figures"),
    ("--explain=", "checks"),
];

fn script(shell: Shell, commands: &[Command]) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut told_parser(commands), "quell", &mut script);
    let mut text = String::from_utf8_lossy(&script).into_owned();
    match shell {
        Shell::Bash => text += BASH,
        Shell::Fish => text += FISH,
        _ => {
            let line = |line: &str| match ZSH.iter().find(|(words, _)| line.contains(words)) {
                Some((_, kind)) => line.replace(
                    ":_default'",
                    &format!(":{{ compadd -- $(quell complete-values {kind} 2>/dev/null) }}'"),
                ),
                None => line.to_owned(),
            };
            text = text.split('\n').map(line).collect::<Vec<_>>().join("\n");
        }
    }
    text.into_bytes()
}
