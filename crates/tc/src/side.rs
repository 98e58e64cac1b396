//! The filter that finds packets' subscribers in a table: a BPF program of ours, told apart from others by the filter's name.

/// Which packets of a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// What a subscriber sends: by source address.
    From,
    /// What a subscriber gets: by destination address.
    To,
}

impl Side {
    /// Both.
    pub const ALL: [Side; 2] = [Side::From, Side::To];

    /// The filter's name in the kernel; its number is that of the program's tables: another one is another program.
    pub fn filter_name(self) -> &'static str {
        match self {
            Side::From => "quell-roster1 from",
            Side::To => "quell-roster1 to",
        }
    }

    /// The side of a filter of ours.
    pub fn of_filter(name: &str) -> Option<Side> {
        Side::ALL.into_iter().find(|side| side.filter_name() == name)
    }

    pub fn address(self) -> &'static str {
        match self {
            Side::From => "source",
            Side::To => "destination",
        }
    }
}
