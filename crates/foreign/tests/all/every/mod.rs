//! What holds of every file of another program, whatever its bytes. Fuzzing looks for one of which it does not.

use quell_foreign::{Imported, MOST_SAMPLES, Tool, read};
use quell_model::{EchoSample, Side};

/// A run can hold what was read, and a refusal can't steer a terminal.
pub fn holds(bytes: &[u8], tool: Option<Tool>) {
    match read(bytes, tool) {
        Ok(tests) => {
            let packets: usize =
                tests.iter().flat_map(|test| &test.streams).map(|s| s.packets.len()).sum();
            assert!(!tests.is_empty() && packets <= 8 * MOST_SAMPLES);
            tests.iter().for_each(is_sound);
        }
        Err(error) => {
            let said = error.to_string();
            assert!(!said.is_empty() && !said.contains(char::is_control), "{said:?}");
        }
    }
}

fn is_sound(imported: &Imported) {
    assert!(imported.streams.iter().any(|s| !s.is_empty()));
    let counted = matches!(imported.tool, Tool::Ping | Tool::Mtr);
    for (index, stream) in imported.streams.iter().enumerate() {
        assert!(!stream.name.is_empty() && stream.name.len() < 300);
        assert!(imported.streams[..index].iter().all(|s| s.name != stream.name));
        assert!(stream.packets.windows(2).all(|two| two[0].seq <= two[1].seq));
        let known = |p: &EchoSample| !p.status.is_answered() || p.rtt_ns.is_some();
        assert!(counted || stream.packets.iter().all(known));
        for side in [Side::Sender, Side::Receiver] {
            let of = || stream.flow.iter().filter(|s| s.side == side);
            assert!(of().zip(of().skip(1)).all(|(a, b)| a.bytes <= b.bytes));
        }
    }
}
