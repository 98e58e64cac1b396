//! What a flow is told by: names as the `flow` filter of `tc` has them, those of the packet inside a tunnel beside them.

use std::fmt;
use std::str::FromStr;

/// An enum whose variants have a name for people: the enum, all of them in order, and the name of each.
macro_rules! named {
    ($(#[$meta:meta])* $name:ident: $count:literal { $($variant:ident $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($variant),+ }

        impl $name {
            pub const ALL: [$name; $count] = [$($name::$variant),+];

            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
        }
    };
}

pub(super) use named;

named! {
    /// One property of a packet that tells flows apart; the bits of the program's configuration are in this order.
    ///
    /// A `tunnel-` key is left out for a packet that is in no tunnel; with two tunnels inside each other it is that of the innermost packet.
    /// Ports are zero for protocols without, and for fragments. `vlan` is the number of the outermost tag, 0 without; `dscp` that of the
    /// outermost IP header; `mark` the packet's firewall mark.
    Key: 13 {
        Src "src",
        Dst "dst",
        Proto "proto",
        ProtoSrc "proto-src",
        ProtoDst "proto-dst",
        TunnelSrc "tunnel-src",
        TunnelDst "tunnel-dst",
        TunnelProto "tunnel-proto",
        TunnelProtoSrc "tunnel-proto-src",
        TunnelProtoDst "tunnel-proto-dst",
        Vlan "vlan",
        Dscp "dscp",
        Mark "mark",
    }
}

impl Key {
    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Keys(u32);

impl Keys {
    /// No key: all packets are one flow.
    pub const NONE: Keys = Keys(0);
    /// Addresses, protocol and ports, of the outermost packet.
    pub const OUTER: Keys = Keys(0x1f);
    /// Those, and the same of the innermost packet.
    pub const ALL_FLOWS: Keys = Keys(0x3ff);

    pub const fn has(self, key: Key) -> bool {
        self.0 & key.bit() != 0
    }

    /// The same with one more key.
    #[must_use]
    pub const fn with(self, key: Key) -> Self {
        Keys(self.0 | key.bit())
    }

    pub const fn bits(self) -> u32 {
        self.0
    }

    /// As the program has them; bits of no key are left out.
    pub const fn from_bits(bits: u32) -> Self {
        Keys(bits & 0x1fff)
    }
}

impl FromIterator<Key> for Keys {
    fn from_iter<I: IntoIterator<Item = Key>>(keys: I) -> Self {
        keys.into_iter().fold(Keys::NONE, Keys::with)
    }
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Key::ALL.into_iter().filter(|key| self.has(*key)).map(Key::name);
        f.write_str(&names.collect::<Vec<_>>().join(","))
    }
}

/// Why a text names no keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no key of a flow: there are {all}", all = all())]
pub struct KeyError(String);

fn all() -> String {
    Key::ALL.map(Key::name).join(", ")
}

impl FromStr for Keys {
    type Err = KeyError;

    /// Names with commas between. They are taken as they are: no beginning of a name stands for it.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let one = |name: &str| {
            let found = Key::ALL.into_iter().find(|key| key.name() == name);
            found.ok_or_else(|| KeyError(name.into()))
        };
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(one).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_printed() {
        for bits in 0..1 << Key::ALL.len() {
            let keys = Keys::from_bits(bits);
            assert_eq!(keys.to_string().parse(), Ok(keys));
            assert_eq!(keys.bits(), bits);
        }
        assert_eq!("src, tunnel-src".parse::<Keys>().unwrap().to_string(), "src,tunnel-src");
        assert_eq!(Keys::ALL_FLOWS.to_string().split(',').count(), 10);
    }

    #[test]
    fn a_name_that_is_half_of_a_key_is_refused_with_the_list() {
        let said = "src,tunnel".parse::<Keys>().unwrap_err().to_string();
        assert!(said.starts_with("\"tunnel\" is no key") && said.contains("tunnel-src"), "{said}");
    }
}
