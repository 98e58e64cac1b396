//! What a packet costs on a line beyond its IP bytes, by what the line is.
//!
//! ```text
//!   HTB counts:   [Ethernet 14] [IP packet]            what the device was given, and `overhead`
//!   CAKE counts:                [IP packet]            from the network header, and `overhead`
//!   the line:     [ … overhead of the line ……… ] [IP packet] [cells]
//! ```

use crate::PolicyError;
use quell_tc::qdisc::{Cake, Framing, LinkLayer};
use quell_tc::{Class, ClassKind, HtbClass};
use quell_units::Rate;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// An Ethernet header.
const ETHERNET: u16 = 14;

/// A kind of line, with the figures of tc-cake(8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineType {
    /// Ethernet as it is on the wire: header, check sum, preamble, gap between frames.
    Ethernet,
    /// The same with a VLAN tag.
    Vlan,
    Docsis,
    /// PPPoE over VDSL2.
    PppoePtm,
    /// Ethernet over VDSL2.
    BridgedPtm,
    PppoeAtm,
    PppoaAtm,
    BridgedAtm,
    IpoaAtm,
}

/// What a [`LineType`] costs: its name, bytes beyond the IP packet, the least that is counted, cells.
type LineTypeRow = (LineType, &'static str, u16, u16, Option<Framing>);

/// tc-cake(8), "OVERHEAD COMPENSATION PARAMETERS"; of the ways over ATM the longer header (LLC), so that the count is never too small.
const TABLE: [LineTypeRow; 9] = [
    (LineType::Ethernet, "ethernet", 38, 84, None),
    (LineType::Vlan, "vlan", 42, 84, None),
    (LineType::Docsis, "docsis", 18, 64, None),
    (LineType::PppoePtm, "pppoe-ptm", 30, 0, Some(Framing::Ptm)),
    (LineType::BridgedPtm, "bridged-ptm", 22, 0, Some(Framing::Ptm)),
    (LineType::PppoeAtm, "pppoe-atm", 40, 0, Some(Framing::Atm)),
    (LineType::PppoaAtm, "pppoa-atm", 14, 0, Some(Framing::Atm)),
    (LineType::BridgedAtm, "bridged-atm", 32, 0, Some(Framing::Atm)),
    (LineType::IpoaAtm, "ipoa-atm", 16, 0, Some(Framing::Atm)),
];

impl LineType {
    fn row(self) -> LineTypeRow {
        *TABLE.iter().find(|row| row.0 == self).expect("every type has its row, which a test holds")
    }

    pub fn all() -> [LineType; 9] {
        TABLE.map(|row| row.0)
    }

    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Bytes beyond the IP packet.
    pub fn bytes(self) -> u16 {
        self.row().2
    }

    /// The least that a packet counts as.
    pub fn least(self) -> u16 {
        self.row().3
    }

    /// It carries cells of 53 bytes.
    pub fn is_atm(self) -> bool {
        self.row().4 == Some(Framing::Atm)
    }

    /// It carries 64 bytes in 65.
    pub fn is_ptm(self) -> bool {
        self.row().4 == Some(Framing::Ptm)
    }
}

impl FromStr for LineType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let names = TABLE.map(|row| row.1);
        let found = TABLE.iter().find(|row| row.1 == text).map(|row| row.0);
        found.ok_or_else(|| {
            let hint = quell_units::nearest::hint(text, &names);
            format!("`{text}` is no kind of line{hint}")
        })
    }
}

/// How much is sent on, and how packets are counted there: what every policy is told of its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Counting {
    /// What is sent on, a little below the link's rate, so that packets wait here and not in the modem.
    pub rate: Rate,
    /// Bytes that each packet costs on the link beyond its Ethernet frame, or beyond what `link` says.
    #[serde(default)]
    pub overhead: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LineType>,
    /// The least that a packet counts as, where it is another than `link` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpu: Option<u16>,
    /// The device gives packets no Ethernet header (PPP, tunnels, WireGuard).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub headless: bool,
}

/// Rates below this leave a part less than HTB can count; one full packet a second is 12112 bit/s.
const LEAST_RATE: Rate = Rate::from_bps(16_000);

/// No line is faster; HTB counts its bursts in ticks that would be none there.
pub(crate) const MOST_RATE: Rate = Rate::from_bps(1_000_000_000_000);

impl From<Rate> for Counting {
    /// Of a line of which nothing else is known.
    fn from(rate: Rate) -> Self {
        Counting { rate, overhead: 0, link: None, mpu: None, headless: false }
    }
}

impl Counting {
    /// A rate that can be divided, as a policy does.
    pub(crate) fn check(self, policy: &'static str) -> Result<(), PolicyError> {
        let (rate, least, most) = (self.rate, LEAST_RATE, MOST_RATE);
        if rate < least {
            return Err(PolicyError::RateTooLow { policy, rate, least });
        }
        if rate > most {
            return Err(PolicyError::RateTooHigh { policy, rate, most });
        }
        Ok(())
    }

    /// Bytes beyond the IP packet.
    fn beyond_ip(self) -> u16 {
        self.link.map_or(ETHERNET, |line| line.row().2).saturating_add(self.overhead)
    }

    /// Bytes beyond what the kernel counts of a packet.
    fn beyond_counted(self) -> u16 {
        self.beyond_ip().saturating_sub(self.counted_header())
    }

    /// What the kernel counts of a packet beyond IP.
    fn counted_header(self) -> u16 {
        if self.headless { 0 } else { ETHERNET }
    }

    /// The bytes on the line of so many packets, of which the kernel counts so many bytes; each is taken to be as long as the others.
    pub fn on_the_line(self, bytes: u64, packets: u64) -> u64 {
        if self.is_plain() || packets == 0 {
            return bytes;
        }
        let ip = (bytes / packets).saturating_sub(self.counted_header().into());
        let one = (ip + u64::from(self.beyond_ip())).max(self.least().unwrap_or(0).into());
        packets
            * match self.link.and_then(|line| line.row().4) {
                Some(Framing::Atm) => one.div_ceil(48) * 53,
                Some(Framing::Ptm) => one + one.div_ceil(64),
                _ => one,
            }
    }

    /// The least that a packet counts as, if there is such.
    fn least(self) -> Option<u16> {
        self.mpu.or(self.link.map(LineType::least)).filter(|mpu| *mpu > 0)
    }

    fn is_plain(self) -> bool {
        self.link.is_none() && self.overhead == 0 && self.mpu.is_none()
    }

    /// The rate at which HTB sends at most: it knows no 64/65 framing.
    pub(crate) fn htb_rate(self) -> Rate {
        match self.link.and_then(|line| line.row().4) {
            Some(Framing::Ptm) => Rate::from_bps((u128::from(self.rate.bps()) * 64 / 65) as u64),
            _ => self.rate,
        }
    }

    /// Tells HTB's class of the line. A line that costs less than the Ethernet header that HTB counts can't be told; it counts a few bytes too
    /// many then.
    pub(crate) fn tell_htb(self, class: &mut HtbClass) {
        let overhead = self.beyond_counted();
        class.overhead = (overhead > 0 && !(self.is_plain() && self.headless)).then_some(overhead);
        class.mpu = self.least();
        class.linklayer = self.link.is_some_and(LineType::is_atm).then_some(LinkLayer::Atm);
    }

    /// The same for a class that is below that of the line: HTB counts a packet in each class of its way by that class's own figures.
    pub(crate) fn told(self, mut class: Class) -> Class {
        if let ClassKind::Htb(htb) = &mut class.kind {
            self.tell_htb(htb);
        }
        class
    }

    pub(crate) fn tell_cake(self, cake: &mut Cake) {
        if self.is_plain() {
            return;
        }
        cake.overhead = Some(i16::try_from(self.beyond_ip()).unwrap_or(i16::MAX).min(256));
        cake.mpu = self.least().map(|mpu| mpu.min(256));
        cake.framing = self.link.and_then(|line| line.row().4);
    }
}

/// A policy with [`Counting`](crate::Counting) in it, and the table in which a person writes both side by side.
macro_rules! counted {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* pub $field:ident: $kind:ty, )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(from = "PolicyText", rename_all = "kebab-case")]
        pub struct $name {
            /// The line's rate, and how packets are counted there.
            #[serde(flatten)]
            pub counting: $crate::Counting,
            $( $(#[$field_meta])* pub $field: $kind, )*
        }

        /// As it is written.
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        struct PolicyText {
            rate: quell_units::Rate,
            #[serde(default)]
            overhead: u16,
            #[serde(default)]
            link: Option<$crate::LineType>,
            #[serde(default)]
            mpu: Option<u16>,
            #[serde(default)]
            headless: bool,
            $( $(#[$field_meta])* $field: $kind, )*
        }

        impl From<PolicyText> for $name {
            fn from(written: PolicyText) -> Self {
                let PolicyText { rate, overhead, link, mpu, headless, $( $field, )* } = written;
                let counting = $crate::Counting { rate, overhead, link, mpu, headless };
                $name { counting, $( $field, )* }
            }
        }
    };
}

pub(crate) use counted;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_cost_on_the_line_what_its_queue_counts() {
        let plain = Counting::from(Rate::from_bps(1_000_000));
        let of = |link: &str| Counting { link: Some(link.parse().expect(link)), ..plain };
        assert_eq!(plain.on_the_line(3028, 2), 3028);
        assert_eq!(Counting { headless: true, ..plain }.on_the_line(3000, 2), 3000);
        assert_eq!(Counting { overhead: 8, ..plain }.on_the_line(3028, 2), 3044);
        // 1500 bytes and 40 of PPPoE over LLC are 33 cells, 40 and 40 are 2.
        assert_eq!(of("pppoe-atm").on_the_line(1514, 1), 33 * 53);
        assert_eq!(of("pppoe-atm").on_the_line(54, 1), 2 * 53);
        let ptm = of("pppoe-ptm");
        assert_eq!(ptm.on_the_line(1514, 1), 1530 + 24);
        assert_eq!(of("ethernet").on_the_line(54, 1), 84);
        assert_eq!(plain.on_the_line(0, 0), 0);
    }

    #[test]
    fn every_type_of_line_has_one_name_that_is_read_again_and_written_in_files_alike() {
        for (line, (of, name, ..)) in LineType::all().into_iter().zip(TABLE) {
            assert_eq!((line, name.parse()), (of, Ok(line)));
            assert_eq!(line.name(), name);
            let written = toml::Value::try_from(line).expect("a word");
            assert_eq!(written.as_str(), Some(name));
        }
        assert!("pppoe-ptn".parse::<LineType>().expect_err("no line").contains("pppoe-ptm"));
    }

    #[test]
    fn an_atm_line_is_counted_in_cells_and_a_ppp_device_has_no_ethernet_header_to_take_off() {
        let link = Some(LineType::PppoeAtm);
        let plain = Counting::from(Rate::from_bps(1_000_000));
        let htb = |headless| {
            let mut class = HtbClass::default();
            Counting { link, headless, ..plain }.tell_htb(&mut class);
            class
        };
        assert_eq!((htb(false).overhead, htb(true).overhead), (Some(26), Some(40)));
        assert_eq!(htb(false).linklayer, Some(LinkLayer::Atm));
        let mut cake = Cake::default();
        Counting { link, ..plain }.tell_cake(&mut cake);
        assert_eq!((cake.overhead, cake.framing), (Some(40), Some(Framing::Atm)));
    }

    #[test]
    fn of_a_line_with_64_of_65_bytes_htb_sends_64_65ths() {
        let link = Some(LineType::PppoePtm);
        let ptm = Counting { link, ..Counting::from(Rate::from_bps(65_000_000)) };
        assert_eq!(ptm.htb_rate(), Rate::from_bps(64_000_000));
    }

    #[test]
    fn where_nothing_is_known_of_the_line_nothing_is_told() {
        let (mut class, mut cake) = (HtbClass::default(), Cake::default());
        for headless in [false, true] {
            let counting = Counting { headless, ..Counting::from(Rate::from_bps(1_000_000)) };
            counting.tell_htb(&mut class);
            counting.tell_cake(&mut cake);
        }
        assert_eq!((class, cake), (HtbClass::default(), Cake::default()));
    }
}
