//! The services of the package: what they start is a command that Quell takes.

use crate::support::{TestFolder, says};

#[test]
fn the_commands_of_the_packages_services_are_taken() {
    let dir = TestFolder::new();
    let folder = dir.path("kept").display().to_string();
    for (unit, more, end) in [
        (include_str!("../../../../packaging/quell-ping@.service"), "-c 1", ""),
        (include_str!("../../../../packaging/quell-serve.service"), "--port 0 --for 50ms", ""),
        (
            include_str!("../../../../packaging/quell-agent.service"),
            "--limits none.toml",
            "could not use none.toml",
        ),
    ] {
        let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=@BINDIR@/quell "));
        let mut command = start.expect("it starts quell").to_owned();
        for (word, value) in [
            ("%i", "127.0.0.1"),
            ("%d", "."),
            ("${QUELL_BUS}", "nats://127.0.0.1:1"),
            ("${QUELL_NAME}", "fra"),
            ("/var/lib/quell-ping", &folder),
        ] {
            command = command.replace(word, value);
        }
        let words: Vec<&str> = command.split(' ').chain(more.split(' ')).collect();
        let said = dir.quell(&words);
        match end {
            // A kernel may let nobody ping.
            "" => assert!(matches!(said.code, Some(0 | 3)), "{words:?}: {}", said.error),
            end => says(&said.error, &[end]),
        }
    }
}
