//! Routes (`RTM_NEWROUTE`), with the metrics that TCP takes from them.

use crate::core::{AttrWriter, DecodeError, Message, NetlinkError, Reply, flags};
use crate::prefix::{self, Prefix};
use crate::stack::Stack;
use std::net::IpAddr;
use std::time::Duration;

const HEADER: usize = 12;

/// `RTAX_*`.
mod metric {
    pub const LOCK: u16 = 1;
    pub const MTU: u16 = 2;
    pub const FEATURES: u16 = 12;
    pub const INITCWND: u16 = 11;
    pub const RTO_MIN: u16 = 13;
    pub const INITRWND: u16 = 14;
    pub const QUICKACK: u16 = 15;
    pub const CC_ALGO: u16 = 16;
    pub const FEATURE_ECN: u32 = 1;
}

/// A route to be added to the main table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRoute {
    /// Where it leads; [`Prefix::ALL_V4`] or [`Prefix::ALL_V6`] is the default route.
    pub to: Prefix,
    /// The next router, or none when the network is reached directly.
    pub via: Option<IpAddr>,
    pub dev: u32,
    /// The source address to prefer.
    pub source: Option<IpAddr>,
    /// What TCP takes from the route.
    pub metrics: RouteMetrics,
}

impl NewRoute {
    /// A route through a router.
    pub fn via(to: Prefix, router: IpAddr, dev: u32) -> Self {
        Self { to, via: Some(router), dev, source: None, metrics: RouteMetrics::default() }
    }

    /// A route to a network on the interface itself.
    pub fn direct(to: Prefix, dev: u32) -> Self {
        Self { to, via: None, dev, source: None, metrics: RouteMetrics::default() }
    }
}

/// Per-route settings; each is the system's own when not given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteMetrics {
    /// Path MTU, in bytes.
    pub mtu: Option<u32>,
    /// Smallest retransmission timeout; whole milliseconds are sent, at least one. It is also
    /// locked, without which TCP ignores it (`tcp_rto_min`).
    pub rto_min: Option<Duration>,
    /// Acknowledge every segment at once.
    pub quick_ack: Option<bool>,
    /// Initial congestion window, in segments.
    pub initial_cwnd: Option<u32>,
    /// Initial receive window, in segments.
    pub initial_rwnd: Option<u32>,
    /// Asks for ECN on outgoing connections.
    pub ecn: Option<bool>,
    /// Congestion control by name: "cubic", "bbr". The kernel takes names that it does not know
    /// silently.
    pub congestion_control: Option<String>,
}

/// A route of the main table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub to: Prefix,
    pub via: Option<IpAddr>,
    pub dev: Option<u32>,
    /// What TCP takes from it.
    pub metrics: RouteMetrics,
}

impl Stack {
    /// Adds a route. Errors with `EEXIST` when there is one for the same destination, `ENETUNREACH`
    /// when the router is not reached directly.
    pub fn add_route(&mut self, route: &NewRoute) -> Result<(), NetlinkError> {
        self.carry_out(&new_route(route, flags::CREATE | flags::EXCL))
    }

    /// Adds a route in place of the one for the same destination, if there is one.
    pub fn replace_route(&mut self, route: &NewRoute) -> Result<(), NetlinkError> {
        self.carry_out(&new_route(route, flags::CREATE | flags::REPLACE))
    }

    /// Removes the route to a destination. Errors with `ESRCH` when there is none.
    pub fn delete_route(&mut self, to: Prefix) -> Result<(), NetlinkError> {
        let tried = format!("remove the route to {to}");
        // Type and scope "any" (0 and RT_SCOPE_NOWHERE), as `ip route del` sends them.
        let mut message =
            Message::with_header(tried, libc::RTM_DELROUTE, 0, &header(to, 255, 0, 0));
        message.attrs().bytes(libc::RTA_DST, &prefix::octets(to.network().address()));
        self.carry_out(&message)
    }

    /// The unicast routes of the main table, IPv4 and IPv6.
    pub fn routes(&mut self) -> Result<Vec<Route>, NetlinkError> {
        let message = Message::with_header("list the routes", libc::RTM_GETROUTE, 0, &[0; HEADER]);
        let mut routes = Vec::new();
        self.socket().dump(&message, |reply| {
            routes.extend(Route::parse(reply)?);
            Ok(())
        })?;
        Ok(routes)
    }

    /// The interface, by index, by which a packet of this host's to an address leaves, as all routing rules say together; none where it does
    /// not leave by one.
    ///
    /// # Errors
    /// `ENETUNREACH` where no route leads there.
    pub fn leaves_by(&mut self, to: IpAddr) -> Result<Option<u32>, NetlinkError> {
        let to = to.to_canonical();
        let mut header = [0; HEADER];
        header[0] = prefix::family(to);
        header[1] = if to.is_ipv4() { 32 } else { 128 };
        let mut message = Message::with_header(
            format!("look for the way to {to}"),
            libc::RTM_GETROUTE,
            0,
            &header,
        );
        message.attrs().bytes(libc::RTA_DST, &prefix::octets(to));
        let replies = self.socket().request(&message)?;
        let interface = |reply: &Reply| {
            let (_, attrs) = reply.split::<HEADER>()?;
            attrs.find(libc::RTA_OIF)?.map(|interface| interface.u32()).transpose()
        };
        let first = replies.first().map(interface).transpose();
        first.map(Option::flatten).map_err(|why| NetlinkError::answer(message.tried(), why))
    }
}

impl Route {
    /// `None` for other tables and kinds of route.
    pub(crate) fn parse(reply: &Reply) -> Result<Option<Self>, DecodeError> {
        let (header, attrs) = reply.split::<HEADER>()?;
        let [family, length, _, _, table, _, _, kind, ..] = *header;
        if table != libc::RT_TABLE_MAIN || kind != libc::RTN_UNICAST {
            return Ok(None);
        }
        let everything = if family == libc::AF_INET as u8 {
            Prefix::ALL_V4
        } else if family == libc::AF_INET6 as u8 {
            Prefix::ALL_V6
        } else {
            return Ok(None);
        };
        let mut destination = everything.address();
        let mut route =
            Self { to: everything, via: None, dev: None, metrics: RouteMetrics::default() };
        for attr in attrs {
            let attr = attr?;
            match attr.kind {
                libc::RTA_DST => destination = prefix::address(attr.payload).unwrap_or(destination),
                libc::RTA_GATEWAY => route.via = prefix::address(attr.payload),
                libc::RTA_OIF => route.dev = Some(attr.u32()?),
                libc::RTA_METRICS => route.metrics = RouteMetrics::parse(attr.nested())?,
                _ => {}
            }
        }
        let Ok(to) = Prefix::new(destination, length) else { return Ok(None) };
        Ok(Some(Self { to, ..route }))
    }
}

impl RouteMetrics {
    fn parse(attrs: crate::core::AttrReader<'_>) -> Result<Self, DecodeError> {
        let mut metrics = Self::default();
        for attr in attrs {
            let attr = attr?;
            match attr.kind {
                metric::MTU => metrics.mtu = Some(attr.u32()?),
                metric::RTO_MIN => {
                    metrics.rto_min = Some(Duration::from_millis(attr.u32()?.into()));
                }
                metric::QUICKACK => metrics.quick_ack = Some(attr.u32()? != 0),
                metric::INITCWND => metrics.initial_cwnd = Some(attr.u32()?),
                metric::INITRWND => metrics.initial_rwnd = Some(attr.u32()?),
                metric::FEATURES => {
                    metrics.ecn = Some(attr.u32()? & metric::FEATURE_ECN != 0);
                }
                metric::CC_ALGO => metrics.congestion_control = Some(attr.str()?.to_owned()),
                _ => {}
            }
        }
        Ok(metrics)
    }

    fn write(&self, to: &mut AttrWriter) {
        let mut locked = 0;
        if let Some(bytes) = self.mtu {
            to.u32(metric::MTU, bytes);
        }
        if let Some(span) = self.rto_min {
            locked |= 1 << metric::RTO_MIN;
            let millis = u32::try_from(span.as_millis()).unwrap_or(u32::MAX).max(1);
            to.u32(metric::RTO_MIN, millis);
        }
        if let Some(on) = self.quick_ack {
            to.u32(metric::QUICKACK, on.into());
        }
        if let Some(segments) = self.initial_cwnd {
            to.u32(metric::INITCWND, segments);
        }
        if let Some(segments) = self.initial_rwnd {
            to.u32(metric::INITRWND, segments);
        }
        if let Some(on) = self.ecn {
            to.u32(metric::FEATURES, if on { metric::FEATURE_ECN } else { 0 });
        }
        if let Some(name) = &self.congestion_control {
            to.str_unterminated(metric::CC_ALGO, name);
        }
        if locked != 0 {
            to.u32(metric::LOCK, locked);
        }
    }
}

pub(crate) fn new_route(route: &NewRoute, flags: u16) -> Message {
    let scope = match (route.via, route.to.address()) {
        (None, IpAddr::V4(_)) => libc::RT_SCOPE_LINK,
        _ => libc::RT_SCOPE_UNIVERSE,
    };
    let via = route.via.map_or_else(String::new, |router| format!(" via {router}"));
    let tried = format!("add the route to {}{via} on interface {}", route.to, route.dev);
    let mut message = Message::with_header(
        tried,
        libc::RTM_NEWROUTE,
        flags,
        &header(route.to, scope, libc::RTPROT_BOOT, libc::RTN_UNICAST),
    );
    let to = message.attrs();
    to.bytes(libc::RTA_DST, &prefix::octets(route.to.network().address()));
    if let Some(router) = route.via {
        to.bytes(libc::RTA_GATEWAY, &prefix::octets(router));
    }
    if let Some(source) = route.source {
        to.bytes(libc::RTA_PREFSRC, &prefix::octets(source));
    }
    to.u32(libc::RTA_OIF, route.dev);
    if route.metrics != RouteMetrics::default() {
        to.nested_plain(libc::RTA_METRICS, |metrics| route.metrics.write(metrics));
    }
    message
}

/// `struct rtmsg`: family, destination length, source length, TOS, table, origin, scope, type,
/// flags.
fn header(to: Prefix, scope: u8, origin: u8, kind: u8) -> [u8; HEADER] {
    let family = prefix::family(to.address());
    [family, to.length(), 0, 0, libc::RT_TABLE_MAIN, origin, scope, kind, 0, 0, 0, 0]
}
