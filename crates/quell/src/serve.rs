//! `quell serve`: the server for all that measures.

use crate::failure::Failure;
use clap::Args;
use quell_serve::log::Log;
use quell_serve::{Limits, ServeConfig, ServeEvent, Server, WebConfig};
use quell_sys::wait::Bell;
use quell_tls::trust::ServerCertificate;
use quell_units::{Rate, Span};
use std::io::IsTerminal;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The port, where none is named: iperf3's.
const PORT: u16 = quell_wire::iperf3::PORT;

/// Whom root becomes.
const USER: &str = "nobody";

/// How long the end waits for the log's reader.
const LAST_WORDS: Duration = Duration::from_millis(300);

#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address to serve at; 0.0.0.0 for all of IPv4, :: for all; an address of one link with its device: fe80::1%eth0 [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS", value_parser = crate::host::own)]
    pub bind: Option<SocketAddr>,
    /// Port to serve at, with TCP and UDP; 0 for any
    #[arg(short, long, default_value_t = PORT)]
    pub port: u16,
    #[command(flatten)]
    pub secret: crate::options::SecretFile,
    /// An address that clients use and that is not the server's own, for example behind NAT: what proves the secret names it
    #[arg(long, value_name = "ADDRESS", value_parser = crate::host::own, requires = "secret_file")]
    pub reached_at: Vec<SocketAddr>,
    /// End after the first test, or a second after the first client's calls; what is under way then may end, and nothing new is accepted
    #[arg(short = '1', long)]
    pub one_off: bool,
    /// End by itself after this time
    #[arg(long = "for", value_name = "TIME")]
    pub time: Option<Span>,
    /// Most tests at once
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub max_tests: u16,
    /// Most tests at once of one client: an IPv4 address, or an IPv6 /64
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub max_tests_per_client: u16,
    /// Most streams of one test, in each direction
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=128))]
    pub max_streams: u16,
    /// Highest rate of payload, sent and received, of all clients together [default: no limit]
    #[arg(long, value_name = "RATE")]
    pub max_rate: Option<Rate>,
    /// The same for one client: an IPv4 address, or an IPv6 /64 [default: no limit]
    #[arg(long, value_name = "RATE")]
    pub max_rate_per_client: Option<Rate>,
    /// Longest time of a test, from when its data begins to flow
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub max_time: Span,
    /// Serve only hosts of the networks that this machine is in, on all its addresses
    #[arg(long, conflicts_with = "bind")]
    pub home: bool,
    /// Serve a page that measures from a browser: http://ADDRESS:PORT/
    #[arg(long)]
    pub web: bool,
    /// A name by which browsers may ask for the page, beside addresses and names such as nas or nas.local
    #[arg(long, value_name = "NAME", requires = "web")]
    pub web_name: Vec<String>,
    /// Certificate for TLS, followed by those up to an authority (PEM); by default the server makes its own
    #[arg(long, value_name = "FILE", requires_all = ["web", "key"])]
    pub certificate: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    /// User to become when started as root
    #[arg(long, value_name = "NAME", default_value = USER)]
    pub user: String,
    #[command(flatten)]
    pub metrics: crate::options::Metrics,
    #[arg(short = 's', long = "server", hide = true)]
    pub server: bool,
    #[arg(short = 'D', long, hide = true)]
    pub daemon: bool,
    #[arg(long, hide = true, value_name = "TIME")]
    pub idle_timeout: Option<String>,
    /// Print each event as a line of JSON
    #[arg(long)]
    pub json: bool,
}

pub fn serve(args: &ServeArgs) -> Result<ExitCode, Failure> {
    answer(args)?;
    let secret = args.secret.read()?;
    let shown = match (&args.certificate, &args.key) {
        (Some(certificate), Some(key)) => {
            Some(ServerCertificate::read(certificate, key).map_err(Failure::usage)?)
        }
        _ => None,
    };
    let bits = |rate: Option<Rate>| rate.map(Rate::bps);
    let limits = Limits {
        sessions: args.max_tests.into(),
        sessions_of_one: args.max_tests_per_client.into(),
        streams: args.max_streams.into(),
        rate: bits(args.max_rate),
        rate_of_one: bits(args.max_rate_per_client),
        time_ns: args.max_time.nanos(),
        ..Limits::default()
    };
    let unasked =
        if args.home { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { Ipv4Addr::LOCALHOST.into() };
    let mut bind = args.bind.unwrap_or_else(|| (unasked, 0).into());
    bind.set_port(args.port);
    let config = ServeConfig {
        bind,
        home: args.home,
        limits,
        secret,
        reached_at: args.reached_at.clone(),
        one_off: args.one_off,
        time_ns: args.time.map(Span::nanos),
        web: args.web.then(|| WebConfig { names: args.web_name.clone(), shown }),
    };
    let server = Server::prepare(config.clone()).or_else(|error| match args.home {
        // A machine without IPv6.
        true => {
            let bind = (Ipv4Addr::UNSPECIFIED, args.port).into();
            Server::prepare(ServeConfig { bind, ..config })
        }
        false => Err(error),
    });
    let mut server = server.map_err(Failure::system)?;
    let metrics = args.metrics.endpoint()?;
    // Before there is a second thread: the kernel keeps rights for each of them.
    server.give_up_rights(&args.user).map_err(Failure::system)?;
    let stop = std::sync::Arc::new(Bell::new().map_err(Failure::system)?);
    crate::interrupt::listen_patiently(&stop)?;
    let how =
        Printing { json: args.json, web: args.web, terminal: std::io::stdout().is_terminal() };
    let log = Log::start(std::io::stdout(), move |event| line(event, how))
        .map_err(|e| Failure::system(format!("could not start a thread: {e}")))?;
    let served = server.run(&stop, &|event: &ServeEvent| log.put(event), metrics.as_ref());
    log.finish(LAST_WORDS);
    served.map_err(Failure::system)?;
    Ok(ExitCode::SUCCESS)
}

/// Options of iperf3's server that are another thing here.
fn answer(args: &ServeArgs) -> Result<(), Failure> {
    let answer = match (args.daemon, &args.idle_timeout) {
        (true, _) => {
            "-D: in the background it is a service (systemctl enable --now quell-serve), or `quell serve … >serve.log 2>&1 &`"
        }
        (false, Some(_)) => {
            "--idle-timeout: needless, since tests that are idle for 5 s give way to others; --for TIME ends the server by itself"
        }
        (false, None) => return Ok(()),
    };
    Err(Failure::usage(answer))
}

/// How events are printed.
#[derive(Clone, Copy)]
struct Printing {
    json: bool,
    /// There is a page.
    web: bool,
    terminal: bool,
}

/// An event as a line; where the page is found below it.
fn line(event: &ServeEvent, how: Printing) -> String {
    if how.json {
        // Texts and numbers are always JSON.
        return serde_json::to_string(event).unwrap_or_default();
    }
    let mut text = event.to_string();
    let ServeEvent::Started { address, pages, .. } = event else { return text };
    if address.ip().is_loopback() {
        text += &match how.web {
            true => format!(
                "\nHere open http://{address}/\nonly this machine can reach it; for the phones of your home: quell serve --web --home"
            ),
            false => {
                "\nonly this machine can reach it; --bind ADDRESS serves others, --home your home"
                    .to_owned()
            }
        };
    }
    for page in pages {
        text += &format!("\nOn the phone open {page}");
    }
    if let Some(code) = pages.first().filter(|_| how.terminal).and_then(|page| qr_code(page)) {
        text += &format!("\n{code}");
    }
    text
}

/// A QR code for a terminal, dark on light whatever its colours are: two rows of modules in a line.
fn qr_code(text: &str) -> Option<String> {
    const QUIET: isize = 2;
    let code = qrcode::QrCode::new(text).ok()?;
    let width = isize::try_from(code.width()).ok()?;
    let colors = code.to_colors();
    let is_dark = |x: isize, y: isize| {
        let inside = (0..width).contains(&x) && (0..width).contains(&y);
        inside && colors.get((y * width + x) as usize) == Some(&qrcode::Color::Dark)
    };
    let module = |x: isize, y: isize| match (is_dark(x, y), is_dark(x, y + 1)) {
        (true, true) => '█',
        (true, false) => '▀',
        (false, true) => '▄',
        (false, false) => ' ',
    };
    let row = |y: isize| {
        let modules: String = (-QUIET..width + QUIET).map(|x| module(x, y)).collect();
        format!("\x1b[38;5;16;48;5;231m{modules}\x1b[0m")
    };
    let rows: Vec<String> = (-QUIET..width + QUIET).step_by(2).map(row).collect();
    Some(rows.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_three_corners_and_fits_a_small_terminal() {
        let code = qr_code("http://192.168.100.200:5201/").expect("it is short");
        let lines: Vec<&str> = code.lines().collect();
        assert!(lines.len() < 20, "{} lines", lines.len());
        let rows: Vec<String> = lines
            .iter()
            .map(|line| line.trim_start_matches("\x1b[38;5;16;48;5;231m").replace("\x1b[0m", ""))
            .collect();
        // A finder pattern is seven modules wide: dark above and to the sides (ISO/IEC 18004, 5.3.2).
        assert!(
            rows[1].starts_with("  █▀▀▀▀▀█ ") && rows[1].ends_with(" █▀▀▀▀▀█  "),
            "{}",
            rows[1]
        );
        assert!(rows.iter().all(|row| row.chars().count() == rows[0].chars().count()));
    }

    #[test]
    fn who_starts_a_page_is_told_what_to_type_on_the_phone() {
        let started = |address: &str, pages: &[&str]| ServeEvent::Started {
            address: address.parse().unwrap(),
            secret: false,
            user: None,
            pages: pages.iter().map(|page| (*page).to_owned()).collect(),
        };
        let how = Printing { json: false, web: true, terminal: false };
        let text = line(&started("0.0.0.0:5201", &["http://192.0.2.7:5201/"]), how);
        assert!(text.ends_with("\nOn the phone open http://192.0.2.7:5201/"), "{text}");
        let text = line(&started("127.0.0.1:5201", &[]), how);
        assert!(text.contains("\nHere open http://127.0.0.1:5201/\n"), "{text}");
        assert!(text.ends_with("quell serve --web --home"), "{text}");
    }
}
