//! `quell` alone, in a terminal: what is wrong, and which command finds out.

use crate::failure::Failure;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// What may be wrong, what to type then, and what that does.
const ANSWERS: [Answer; 4] = [
    (
        "Calls and games break up while the line is busy",
        "quell shape try --line 10/50",
        "It tries a line of 10 Mbit/s up and 50 Mbit/s down in the lab, as it is and shaped. Put in the rates of yours.",
    ),
    (
        "Transfers between two machines are slow",
        "quell flow HOST",
        "It measures throughput and says what limits it. `quell serve --bind ADDRESS` runs on HOST.",
    ),
    (
        "A host answers late, or not at all",
        "quell path HOST",
        "It shows each hop on the path with its loss and delay. It needs nothing on HOST.",
    ),
    (
        "This machine is slow, and I don't know where to look",
        "quell doctor",
        "It looks for a second, changes nothing, and says what is wrong and how to mend it.",
    ),
];

pub fn can_ask() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

pub fn ask() -> Result<ExitCode, Failure> {
    println!("What is wrong?\n");
    for (number, (wrong, ..)) in (1..).zip(ANSWERS) {
        println!("  {number}  {wrong}");
    }
    print!("\nA number, or Enter for all commands: ");
    let _ = std::io::stdout().flush();
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::system)?;
    match answered(&answer) {
        Ok(Some((_, command, about))) => println!("\n  {command}\n\n{about}"),
        Ok(None) => println!("\n{}", crate::command::parser(crate::COMMANDS).render_help()),
        Err(failure) => return Err(failure),
    }
    Ok(ExitCode::SUCCESS)
}

type Answer = (&'static str, &'static str, &'static str);

fn answered(answer: &str) -> Result<Option<Answer>, Failure> {
    let answer = answer.trim();
    let number = answer.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    match number.and_then(|n| ANSWERS.get(n)) {
        _ if answer.is_empty() => Ok(None),
        Some(known) => Ok(Some(*known)),
        None => Err(Failure::usage(format!("`{answer}` is none of 1 to {}", ANSWERS.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_leads_to_a_command_that_there_is() {
        let parser = crate::command::parser(crate::COMMANDS);
        for (number, (_, command, _)) in (1..).zip(ANSWERS) {
            let got = answered(&format!(" {number}\n")).expect("it is one of them");
            assert_eq!(got.map(|(_, command, _)| command), Some(command));
            assert!(parser.clone().try_get_matches_from(command.split(' ')).is_ok(), "{command}");
        }
        assert!(answered("\n").expect("help is wanted").is_none());
        assert!(answered("5").is_err() && answered("0").is_err() && answered("slow").is_err());
    }
}
