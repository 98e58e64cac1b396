//! The IFB that queues what comes in at an interface: its name, and the address by which it is known.

use quell_netlink::Stack;

/// The IFB that queues what comes in at an interface. One that is there by the name that older versions gave it keeps that.
pub fn ifb_of(device: &str) -> String {
    let older = quell_lab::build::cut_ifb_name(device);
    let name = quell_lab::build::ifb_name(device);
    if older != name && is_there(&older, mac_of(device)) { older } else { name }
}

/// Whether an interface of this name and address is there.
fn is_there(name: &str, mac: [u8; 6]) -> bool {
    let look = || {
        let mut stack = Stack::open().ok()?;
        let index = stack.index_of(&name.parse().ok()?).ok()?;
        stack.link_at(index).ok()?.mac
    };
    look().is_some_and(|there| there.0 == mac)
}

/// The address by which an IFB is known to be ours: that of its interface's name, hashed, marked as given by hand.
pub fn mac_of(device: &str) -> [u8; 6] {
    let hash = quell_tc::hash(device.bytes()).to_be_bytes();
    [0x02, b'Q', b'l', hash[5], hash[6], hash[7]]
}
