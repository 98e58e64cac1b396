//! Which packets of a subscriber.

/// Whose packets a program is to find.
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

    /// The program's name, in the object and in the kernel.
    pub fn program(self) -> &'static str {
        match self {
            Side::From => "quell_from",
            Side::To => "quell_to",
        }
    }
}
