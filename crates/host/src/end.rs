//! One end of a connection: the device that carries it, and what its host offers.

use quell_netlink::ethtool::Ethtool;
use quell_netlink::sock_diag::TcpInfo;
use quell_netlink::{LinkName, Stack};
use quell_wire::ends::{EndView, Offers};
use std::net::{IpAddr, SocketAddr};

/// The device that has this own address; none where no device has it.
pub fn device_with(address: IpAddr) -> Option<String> {
    let mut stack = Stack::open().ok()?;
    if address.is_loopback() {
        return Some("lo".into());
    }
    let address = match address {
        IpAddr::V6(v6) => v6.to_canonical(),
        v4 => v4,
    };
    let index = stack.addresses().ok()?.into_iter().find(|a| a.prefix.address() == address)?.index;
    Some(stack.link_at(index).ok()?.name)
}

/// How this end sees a connection, by what its kernel says of it, with what its host offers and the device that carries it.
pub fn view(
    info: Option<&TcpInfo>,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
) -> EndView {
    let on = |name: &str| {
        let text = quell_netlink::sysctl::read(&format!("net/ipv4/{name}")).ok()?;
        Some(text.trim() != "0")
    };
    let offers = || {
        let (sack, window_scaling) = (on("tcp_sack")?, on("tcp_window_scaling")?);
        Some(Offers { sack, window_scaling, timestamps: on("tcp_timestamps")? })
    };
    let device = local.and_then(|local| device_with(local.ip()));
    let link = || {
        let name = device.as_ref()?.parse::<LinkName>().ok()?;
        Stack::open().ok()?.link(&name).ok()
    };
    let figure = |figure: fn(&TcpInfo) -> u32| info.map_or(0, figure);
    EndView {
        local,
        remote,
        options: info.map_or(0, |info| info.options),
        snd_mss: figure(|info| info.snd_mss),
        advmss: figure(|info| info.advmss),
        pmtu: figure(|info| info.pmtu),
        told_scale: info.map_or(0, |info| info.rcv_wscale),
        got_scale: info.map_or(0, |info| info.snd_wscale),
        offers: offers(),
        device_mtu: link().map(|link| link.mtu),
        link_mbit: device.as_deref().and_then(speed),
    }
}

/// What a device's link does in Mbit/s, as its driver tells; none where it has no speed. Of the calling thread's network namespace, which
/// `/sys/class/net` need not show.
pub fn speed(device: &str) -> Option<u32> {
    Ethtool::open().ok()?.speed(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_tells_of_its_loopback_device() {
        assert_eq!(device_with("127.0.0.1".parse().unwrap()).as_deref(), Some("lo"));
        assert_eq!((speed("lo"), speed("none such")), (None, None));
    }
}
