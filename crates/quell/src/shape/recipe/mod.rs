//! `quell shape recipe`: what to paste where Quell will never run, tried in the lab before it is printed.
//!
//! ```text
//!   options ─► trees, as plan has them ─┬─► lab: as it is and shaped ─► comments
//!                                       └─► UCI | networkd's units | commands of ip and tc
//! ```

mod commands;
mod networkd;
mod openwrt;
mod piece;

use super::chosen::choose_with_cake;
use super::rehearsal::{How, rehearse};
use super::state::open;
use super::wanted::{LineArgs, ifb_of, traits_of, trees};
use crate::failure::Failure;
use crate::options::Json;
use crate::results::Told;
use clap::{Args, ValueEnum};
use piece::{Piece, Recipe, Wish, cake};
use quell_act::{Goal, Machine};
use quell_shaper::{BothWays, DeviceTraits, HostsBy, PolicyName};
use quell_tc::Tree;
use serde_json::{Value, json};
use std::fmt::Write;
use std::process::ExitCode;

/// Where the recipe is pasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// OpenWrt's sqm-scripts
    Openwrt,
    /// systemd-networkd
    Networkd,
    /// A shell with ip and tc
    Tc,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Target::Openwrt => "openwrt",
            Target::Networkd => "networkd",
            Target::Tc => "tc",
        }
    }

    /// What leads to the internet, where nobody said: OpenWrt's usual name, and the kernel's.
    fn usual_device(self) -> &'static str {
        match self {
            Target::Openwrt => "wan",
            Target::Networkd | Target::Tc => "eth0",
        }
    }
}

/// Options of `quell shape recipe`.
#[derive(Debug, Args)]
pub struct RecipeArgs {
    /// Where it is pasted
    #[arg(long = "for", value_name = "TARGET", value_enum)]
    pub target: Target,
    /// The interface that leads to the internet, there; `wan` on OpenWrt and `eth0` elsewhere where absent
    #[arg(long = "dev", value_name = "DEV", value_parser = device)]
    pub device: Option<String>,
    #[command(flatten)]
    pub line: LineArgs,
    /// Print it at once, without trying it in the lab
    #[arg(long)]
    pub no_try: bool,
    #[command(flatten)]
    pub how: How,
    #[command(flatten)]
    pub json: Json,
}

/// A name that means the same in a shell, in UCI and in a unit.
fn device(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
    let fits = (1..16).contains(&text.len()) && !text.starts_with(['-', '.']);
    if fits && text.chars().all(plain) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{text}`: a recipe is for an interface whose name has at most 15 letters, digits, dots, dashes and underscores"
    ))
}

/// `quell shape recipe`.
pub fn recipe(args: &RecipeArgs) -> Result<ExitCode, Failure> {
    let all = args.line.both_ways()?;
    if all.tree.is_some() {
        return Err(Failure::usage(
            "a recipe is made of a policy; of a tree of one's own, `quell shape plan` prints the commands",
        ));
    }
    // A kernel that lacks it is told by itself when the recipe is pasted.
    let policy = choose_with_cake(&all);
    let (target, name) = (args.target, args.target.name());
    if target != Target::Tc && policy != PolicyName::Cake {
        let why = match target {
            Target::Openwrt => {
                "sqm-scripts have their own tiers, which are not the queues that were tried"
            }
            Target::Networkd | Target::Tc => {
                "systemd-networkd has no filters, so it can't tell packets apart"
            }
        };
        return Err(Failure::usage(format!(
            "{} can't be said for {name}: {why}; --policy cake can, and --for tc says all",
            policy.name()
        )));
    }
    let device = args.device.clone().unwrap_or_else(|| target.usual_device().to_owned());
    if policy == PolicyName::HostFair && all.hosts.is_empty() {
        return Err(Failure::usage(format!(
            "host-fair that finds its hosts can't be said for {name}: what finds them is a program that Quell loads. Name the hosts \
             with --host, or take --policy cake, which finds them by itself"
        )));
    }
    if policy == PolicyName::Cake && all.found.is_some_and(|found| found.by() == HostsBy::Inside) {
        return Err(Failure::usage(format!(
            "what is in tunnels can't be told apart for {name}: what looks into them is a program that Quell loads. Leave --hosts-by out"
        )));
    }
    let traits = traits(args)?;
    if all.by_nat(policy) {
        return Err(Failure::usage(format!(
            "what tells {} apart behind address translation can't be said for {name}: Quell makes a table for it that no command makes. \
             --policy cake looks through translation by itself",
            policy.name()
        )));
    }
    let (own, beyond) = trees(&all, policy, traits, &device)?;
    let wish = Wish { ifb: ifb_of(&device), device, own, beyond };
    let mut recipe = match target {
        Target::Openwrt => openwrt::recipe(&wish)?,
        Target::Networkd => networkd::recipe(&wish)?,
        Target::Tc => commands::recipe(&wish)?,
    };
    if traits.tracked && all.names_ipv4(policy) {
        recipe.said.push(
            "(where addresses are translated on its way out, IPv4 packets have all the router's address there, and count as all others'; \
             --policy cake looks through that)"
                .into(),
        );
    }
    if args.device.is_none() {
        recipe.said.insert(
            0,
            format!(
                "{} stands for what leads to the internet there; --dev names another",
                wish.device
            ),
        );
    }
    let tried = match args.no_try {
        true => None,
        // Comments have two columns less.
        false => {
            let (mut remarks, found) = rehearse(&all, policy, &args.how, 98)?;
            remarks.extend(not_tried(&wish).map(str::to_owned));
            Some((remarks, found))
        }
    };
    let words = all.words(policy);
    if args.json.json {
        println!("{}", crate::text::document(&document(target, &wish, &words, &recipe, tried)));
    } else {
        print!("{}", told(target, &words, &all, &recipe, tried));
    }
    Ok(ExitCode::SUCCESS)
}

/// What the interface is like: this machine's, where it has one of that name. Elsewhere it is that of a router, which translates addresses.
fn traits(args: &RecipeArgs) -> Result<DeviceTraits, Failure> {
    let elsewhere = DeviceTraits { headless: false, tracked: true };
    match &args.device {
        Some(device) if args.target != Target::Openwrt => {
            let now = open()?.read(&Goal::default()).map_err(Failure::system)?;
            Ok(now.links.get(device).map_or(elsewhere, traits_of))
        }
        _ => Ok(elsewhere),
    }
}

/// What of the recipe the lab's queues were without.
fn not_tried(wish: &Wish) -> Option<&'static str> {
    let nat = |tree: &Tree| cake(tree).is_some_and(|cake| cake.nat == Some(true));
    let any = nat(&wish.own) || wish.beyond.as_ref().is_some_and(nat);
    any.then_some("(there without CAKE's `nat`, since nobody translates addresses in the lab)")
}

fn document(
    target: Target,
    wish: &Wish,
    words: &str,
    recipe: &Recipe,
    tried: Option<(Vec<String>, Told)>,
) -> Value {
    let piece = |piece: &Piece| json!({"place": piece.place, "text": piece.text});
    json!({
        "for": target.name(),
        "device": wish.device,
        "wanted": words,
        "pieces": recipe.pieces.iter().map(piece).collect::<Vec<Value>>(),
        "remarks": recipe.said,
        "lab": tried.map(|(remarks, told)| json!({"remarks": remarks, "results": told.document})),
    })
}

/// The recipe for a person: each line that is not to be pasted is a comment there.
fn told(
    target: Target,
    words: &str,
    all: &BothWays,
    recipe: &Recipe,
    tried: Option<(Vec<String>, Told)>,
) -> String {
    let mut comments = vec![format!("for {}: {words}", target.name())];
    comments.extend(recipe.said.iter().cloned());
    comments.push(String::new());
    match tried {
        Some((remarks, found)) => {
            let line = all.line.map(|line| format!(", {} Mbit/s up/down", String::from(line)));
            comments.push(format!(
                "tried in the lab on a line like that{}, as it is and with these queues:",
                line.unwrap_or_default()
            ));
            comments.extend(remarks);
            comments.extend(found.table.lines().map(str::to_owned));
        }
        None => comments.push("not tried: --no-try".into()),
    }
    let mut text = String::new();
    for comment in comments {
        let _ = writeln!(text, "{}", format!("# {comment}").trim_end());
    }
    for piece in &recipe.pieces {
        let _ = write!(text, "\n# ── {}\n{}", piece.place, piece.text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_shaper::LineType;

    /// A wish for a line of 10 up and 50 down.
    pub(super) fn wish(link: Option<LineType>, overhead: u16) -> (BothWays, Wish) {
        let line = Some("10/50".parse().expect("rates"));
        let all = BothWays { line, link, overhead, ..BothWays::default() };
        let traits = DeviceTraits { headless: false, tracked: true };
        let (own, beyond) = trees(&all, PolicyName::Cake, traits, "eth0").expect("trees");
        (all, Wish { device: "eth0".into(), ifb: ifb_of("eth0"), own, beyond })
    }

    #[test]
    fn a_name_that_a_shell_would_take_for_something_else_is_refused() {
        for good in ["eth0", "pppoe-wan", "br-lan.7", "wg_home", "eth0@x"] {
            assert_eq!(device(good).as_deref(), Ok(good));
        }
        for bad in ["", "a b", "$(reboot)", "a'b", "-rf", "..", "a/b", "0123456789abcdef", "ü"] {
            assert!(device(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn that_the_lab_translates_no_addresses_is_said_where_the_recipe_does() {
        let (all, router) = wish(None, 0);
        assert!(not_tried(&router).is_some_and(|said| said.contains("`nat`")));
        let traits = DeviceTraits { headless: false, tracked: false };
        let (own, beyond) = trees(&all, PolicyName::Cake, traits, "eth0").expect("trees");
        assert_eq!(not_tried(&Wish { own, beyond, ..router }), None);
    }

    #[test]
    fn what_is_no_text_to_paste_is_a_comment_and_no_line_is_too_wide() {
        for target in [Target::Openwrt, Target::Networkd, Target::Tc] {
            let (all, wish) = wish(Some(LineType::PppoePtm), 4);
            let recipe = match target {
                Target::Openwrt => openwrt::recipe(&wish),
                Target::Networkd => networkd::recipe(&wish),
                Target::Tc => commands::recipe(&wish),
            };
            let recipe = recipe.expect("a recipe");
            let text = told(target, &all.words(PolicyName::Cake), &all, &recipe, None);
            let pasted: String = recipe.pieces.iter().map(|piece| piece.text.as_str()).collect();
            for line in text.lines().filter(|line| !line.is_empty()) {
                assert!(line.starts_with('#') || pasted.contains(line), "{line}");
                assert!(!line.starts_with('#') || line.chars().count() <= 100, "{line}");
            }
        }
    }
}
