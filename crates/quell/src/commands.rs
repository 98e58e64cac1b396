//! The table of commands: everything that `quell` can be told to do. Parsing, help, manual pages and completions come from it.

use crate::command::{Call, Command, Fails, Group, Prints, calls};
use crate::completion::{self, CompletionsArgs};
use crate::failure::Failure;
use crate::flow::FlowArgs;
use crate::man::{self, ManArgs};
use crate::mesh::bus::AgentArgs;
use crate::options::Json;
use crate::{
    check, doctor, export, gather, import, kernel, lab, mesh, open, page, path, ping, plot, rpm,
    rr, run, series, serve, shape, show, trace, tree, tune, twin, twin_check, twin_choose,
};
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

/// The commands, in the order in which help names them.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "ping",
        about: "Ping hosts: loss, delay and jitter, watched as they come",
        examples: "\
quell ping example.org
quell ping -c 400 -t voip,192.0.2.7,EF,160 -t bulk,192.0.2.7,CS1,1400
quell ping --method udp 192.0.2.7           (`quell serve` runs there)
quell ping --method tcp 192.0.2.7:22
quell ping fe80::1%eth0                     (an address of one link)
quell ping -d 10min -w evening 192.0.2.7    (kept; then: quell show)
quell ping -r evening -o evening.png        (what was kept, drawn)
quell ping -q --keep 30d -w line 192.0.2.7  (for weeks; then: quell show line)
quell ping -c 10 example.org --json | jq .streams[0].rtt_ms.p50",
        notes: "On a terminal a view is drawn in place; in a pipe each packet is a line. Ctrl-C ends it and sums up, a \
                second Ctrl-C ends it at once.",
        fails: Fails::When("a stream got no reply at all"),
        call: calls!(ping::PingArgs, ping::ping),
        ..of(Group::Measure)
    },
    Command {
        name: "path",
        about: "Show the hops to a host: loss, delay, MTU, changed marks",
        examples: "\
quell path example.org
quell path example.org -c 20                (20 of each hop, then a summary)
quell path --method tcp example.org:443     (what a connection meets)
quell path --flows 8 example.org            (links side by side, by flow)
quell path -6 example.org --tos EF -w trip  (kept; then: quell path -r trip)
quell path example.org -c 5 --json | jq .mtu",
        notes: "Needs no rights, except to see whether DSCP and ECN arrive (root, or setcap cap_net_raw+ep). All packets of a flow have \
                the same ports, so that one path is shown and not a mixture. A hop that answers less than those behind it limits its \
                answers: nothing is lost there.",
        fails: Fails::When("the host did not answer"),
        call: calls!(path::PathArgs, path::path),
        ..of(Group::Measure)
    },
    Command {
        name: "flow",
        about: "Measure throughput, and what it does to a ping beside it",
        examples: "\
quell flow 192.0.2.7                  (TCP from here, 10 s)
quell flow 192.0.2.7 -R --bdp         (from there; does the window suffice?)
quell flow 192.0.2.7 --bidir -t 30 -O 3
quell flow 192.0.2.7 -u -b 20M --dscp EF
quell flow 192.0.2.7 -P 2 -C cubic,bbr
quell flow 192.0.2.7 --save           (then: quell show, quell plot)
quell flow 192.0.2.7 -J               (as iperf3 -J prints it)
quell flow 192.0.2.7 --rpm            (responsiveness, both directions)
quell flow https://example.org --rpm",
        notes: "The other end runs quell serve or iperf3 -s. Options of iperf3 mean the same. Ctrl-C ends it and sums up, \
                a second one ends at once. What was measured until a test broke off is shown.\n\n\
                --rpm measures responsiveness, in round trips a minute under load: first down, then up. The server is `quell serve \
                --web`, or any of draft-ietf-ippm-responsiveness. docs/web.md tells more.",
        fails: Fails::When("the test broke off or nothing got through"),
        call: Call { options: FlowArgs::augment_args, run: rpm::flow_or_rpm },
        ..of(Group::Measure)
    },
    Command {
        name: "rr",
        about: "Time calls over TCP, by size; tell who waited, for what",
        examples: "\
quell serve --bind 192.0.2.7                (at the other end)
quell rr 192.0.2.7
quell rr 192.0.2.7 --pattern write-write-read --sizes 1440..1450
quell rr 192.0.2.7 --pattern write-write-read --fix nodelay",
        notes: "A call of which nothing moves for 5 s is lost, and one without its whole reply within a minute.",
        fails: Fails::When("a call was lost or none was over when it was stopped"),
        call: calls!(rr::RrArgs, rr::rr),
        ..of(Group::Measure)
    },
    Command {
        name: "page",
        about: "Load pages in a real browser: painted, all there, who waited",
        examples: "\
quell page https://example.org
quell page example.org example.com -c 10 --warm
quell page https://192.0.2.7/ --waterfall --no-scripts
quell page https://192.0.2.7:5201/.well-known/nq --insecure
quell page example.org --http 3       (by HTTP/3 and no other version)
quell page example.org -c 10 --save   (a run, for show, compare and report)
quell page example.org --no-jit       (what a slow browser makes of it)
quell page --browser /opt/chrome/chrome example.org --timeout 2min
quell page example.org --json | jq .pages[0].loads[0].load_ms",
        notes: "It needs Chromium (Debian's package chromium) or a browser that is one inside. Each load has a cache and connections of \
                its own, in a folder that is removed. \"net ms\" is for how long something was waited for from the network; what \
                is left of the total is the browser's own work. As root a browser has no sandbox. docs/pages.md tells more.",
        fails: Fails::When(
            "a page was not there in time, could not be loaded or was answered with an error",
        ),
        call: calls!(page::PageArgs, page::page),
        ..of(Group::Measure)
    },
    Command {
        name: "serve",
        about: "Serve quell flow, rr and ping, iperf3 and STAMP senders",
        examples: "\
quell serve --bind 0.0.0.0            (loopback only without --bind)
quell serve --bind 192.0.2.7 --secret-file key
quell serve --bind :: --max-rate-per-client 100Mbit --max-time 60s --json
quell serve -1                        (ends after one test)
quell serve --web --bind 192.0.2.7    (a page: http://192.0.2.7:5201/)
iperf3 -c 192.0.2.7                   (at a client; also -u, -R, --bidir, -P)",
        notes: "TCP and UDP of one port. Started as root, it opens the port and becomes another user without any rights. \
                With a secret, iperf3 clients are refused, since they can't know it; STAMP packets are still reflected, \
                never larger than they came. Clients give the same --secret-file.\n\n\
                A secret: head -c 32 /dev/urandom | base64 >key; chmod 600 key",
        call: calls!(serve::ServeArgs, serve::serve),
        ..of(Group::Measure)
    },
    Command {
        name: "trace",
        about: "Tell from captured packets who waited, and for what",
        examples: "\
sudo tcpdump -i eth0 -s 128 -w slow.pcap tcp port 7890
quell trace slow.pcap
quell trace slow.pcap --connection 3
zcat old.pcap.gz | quell trace - --json",
        notes: "Packets are numbered as `tcpdump --number -r FILE` does. Capture at the end that sends, if you can: there \
                the times between an ACK and what follows it are the sender's own. Of a capture that breaks off, what was read until then is shown.",
        fails: Fails::When("the capture breaks off"),
        call: calls!(trace::TraceArgs, trace::trace),
        ..of(Group::Measure)
    },
    Command {
        name: "doctor",
        about: "Find what makes this host slow: evidence, reason, remedy",
        examples: "\
quell doctor
quell doctor --during 'curl -s -o /dev/null https://example.org/large'
quell doctor --during flow:192.0.2.7  (`quell serve` runs there)
quell doctor --peer 192.0.2.7         (`quell serve` runs there)
quell doctor --watch --until listen-overflow
quell doctor --only queue-drops,listen-overflow --all
quell doctor --list
quell doctor --explain delayed-ack
quell doctor --record facts.json      (to send; then: --from facts.json)",
        notes: "It looks for a second and changes nothing. Without root, other users' processes are not named. What is only worth knowing \
                is counted, and shown with --severity note. docs/diagnosing.md tells more.",
        fails: Fails::When(
            "something is wrong, --until was met, or the command of --during failed",
        ),
        call: calls!(doctor::DoctorArgs, doctor::doctor),
        ..of(Group::Measure)
    },
    Command {
        name: "tree",
        about: "Show queues, classes and filters as a tree, with counters",
        examples: "\
quell tree                            (all devices)
quell tree eth0 --watch               (per second, in place; --watch=5s)
quell tree eth0 --over 10s --svg eth0.svg
ssh router tc -s -d qdisc show | quell tree --from -
quell tree --from outputs.txt --all
quell tree eth0 --dot | dot -Tsvg > eth0.svg",
        notes: "Of queues that are alike one is shown, with the number and the sum of the others; --all shows \
                each. An IFB is drawn below the filter that feeds it. A `!` marks what will go wrong; the reason is below the tree. Reading needs no rights.\n\n\
                With --from, outputs follow each other in any order, as text or JSON, prompts and blank lines between. Those of \
                tc class and tc filter don't name their device: leave the command above them (as `set -x` prints it), or name \
                the device.",
        call: calls!(tree::TreeArgs, tree::tree),
        ..of(Group::Measure)
    },
    Command {
        name: "shape try",
        about: "Try it in the lab on a line like yours: as it is and shaped",
        examples: "\
quell shape try --line 10/50
quell shape try --line 50down/10up --kind docsis
quell shape try --up 2.3Mbit --down 18Mbit --policy tiers
quell shape try --file policy.toml --twin line.toml --json",
        notes: "Uploads, downloads and a flood on the network of `quell run home-link`, with the queues that `quell shape apply` \
                would make. Nothing of this machine is touched. Of --file's subscribers the first two are tried, of hosts two that stand in for yours.",
        fails: Fails::When("a measurement did not come to its end"),
        call: calls!(shape::TryArgs, shape::try_it),
        ..of(Group::Act)
    },
    Command {
        name: "shape plan",
        about: "Show what would be changed; touches nothing",
        examples: "\
quell shape plan --dev eth0 --line 10/50
quell shape plan --dev eth0 --line 10/50 --link pppoe-ptm --policy tiers
quell shape plan --dev eth0 --up 9.5Mbit --host 192.0.2.7 --host 192.0.2.8
quell shape plan --dev eth0 --line 10/50 --policy host-fair
quell shape plan --dev eth0 --file policy.toml --json
quell shape plan --dev eth0 --tree queues.toml",
        notes: "The default is host-fair: an equal share for each machine that sends, three tiers by DSCP in it, fair flows in each. On lines \
                below 4 Mbit/s, and where the kernel can't, it is CAKE; why is said. What is received is queued too, on an IFB. \
                docs/shaping.md tells of all policies.",
        call: calls!(shape::PlanArgs, shape::plan),
        ..of(Group::Act)
    },
    Command {
        name: "shape apply",
        about: "Do it: all or nothing",
        examples: "\
quell shape apply --dev eth0 --line 10/50 --host 192.0.2.7 --host 192.0.2.8
quell shape apply --dev eth0 --tree queues.toml --confirm-within 60s
quell shape apply --dev eth0 --up 9.5Mbit --host 192.0.2.7 --replace",
        notes: "Everything is tried in a separate namespace first. What was there is written down before the first step. A second process brings it back when a step is refused, \
         this program is killed, or nobody confirms in time.",
        fails: Fails::When(
            "others' queues are in the way, there is no way back, or somebody is changing the same",
        ),
        call: calls!(shape::ApplyArgs, shape::apply),
        ..of(Group::Act)
    },
    Command {
        name: "shape change",
        about: "Other rates for one subscriber, and nothing else touched",
        examples: "\
quell shape change ann --up 20Mbit --down 100Mbit
quell shape change ann --dev eth0 --down 100Mbit --down-floor 10Mbit
quell shape change ann --down 10Mbit --confirm-within 60s",
        notes: "Where classes are made as subscribers come, one class is changed in each direction, if it is there. No packet \
         of anybody is lost, and nothing of the others is read. `quell shape apply` with the policy file leads back to what that says.",
        fails: Fails::When(
            "nothing of Quell's is in force there, it waits to be confirmed, or somebody is changing the same",
        ),
        call: calls!(shape::ChangeArgs, shape::change),
        ..of(Group::Act)
    },
    Command {
        name: "shape confirm",
        about: "Keep what was applied with --confirm-within",
        examples: "quell shape confirm",
        fails: Fails::When("nothing waits to be confirmed"),
        call: calls!(shape::ConfirmArgs, shape::confirm),
        ..of(Group::Act)
    },
    Command {
        name: "shape off",
        about: "Take all of it off; what was there before comes back",
        examples: "quell shape off --dev eth0\nquell shape off --dev eth0 --replace",
        notes: "What somebody has put there since stays. Where a queue has the name of Quell's and is not as it was left, nothing is \
                done before --replace or --keep says what is to become of it.",
        fails: Fails::When(
            "nothing there is Quell's, it is unknown who made something, or somebody is changing the same",
        ),
        call: calls!(shape::OffArgs, shape::off),
        ..of(Group::Act)
    },
    Command {
        name: "shape status",
        about: "What is in force, and what passed through it",
        examples: "quell shape status\nquell shape status --dev eth0\nquell shape status --watch\nquell shape status --watch=5s --json\nquell shape status --json | jq .shaped[0].queues\nquell shape status --metrics",
        notes: "--watch prints a block for each reading where there is no terminal, and a line of JSON with \
                --json. CAKE reports how long packets wait; for other queues it is the backlog divided by the rate.\n\n\
                Keys of --json, of each in shaped: device, wanted (the policy in words), in_order (as wanted), standing (in words), \
                changing (by whom). Also: renamed_to, by (a command), since (seconds since 1970). Its subscribers, on demand: known, here, most, \
                holder. Each of its queues: device, kind, handle, sent_packets, sent_bytes, dropped_packets, backlog_packets, \
                backlog_bytes, hosts (places, taken), parts. Of a followed line, follow: process, directions, signals. A part has those counts, and name, host (of a tier), place, addresses, mac, \
                strangers, idle_s, marked_packets, delay_us (CAKE's).",
        fails: Fails::When("a change is unfinished, or queues are no longer as applied"),
        call: calls!(shape::StatusArgs, shape::status),
        ..of(Group::Act)
    },
    Command {
        name: "shape hold",
        about: "Make classes for subscribers as they come",
        prints: Prints::Program,
        examples: "quell shape hold --dev eth0 --stand-by",
        notes: "`quell shape apply` starts it where classes are made when their subscriber is there; it ends with `quell shape off`. If it dies, those who have classes keep them, and `apply` starts it again.",
        fails: Fails::When("somebody does it already, or no class on the interface comes and goes"),
        call: calls!(shape::HoldArgs, shape::hold),
        ..of(Group::Act)
    },
    Command {
        name: "shape follow",
        about: "Follow a line that varies, between a floor and a ceiling",
        prints: Prints::Program,
        examples: "\
quell shape apply --dev wan --file follow.toml   (it starts it)
quell shape follow --dev wan --dry-run
quell shape follow --dev wan --stand-by",
        notes: "The policy file has follow = { floor = \"2/5\", ceiling = \"20/60\", signals = [\"stamp:HOST\", \"ping:HOST\", \"flows\"] }. A `quell serve` runs on the first HOST beyond the line, the second answers pings, and flows are the round trips of \
                TCP. Each signal is tested first, with loads of 3 s in each direction, or by the flows themselves. One that does not see the line's queue is not \
                believed, and the rate stays at the floor.",
        fails: Fails::When(
            "somebody does it already, or the policy on the interface follows nothing",
        ),
        call: calls!(shape::FollowArgs, shape::follow),
        ..of(Group::Act)
    },
    Command {
        name: "shape persist",
        about: "Bring what is in force back after a reboot",
        examples: "quell shape apply --dev eth0 --line 10/50 && quell shape persist --dev eth0",
        notes: "Writes what is wanted to /etc/quell/shape/DEV.toml, and a unit of systemd that applies it when the interface is \
                there: after a boot, and when it went and comes back. `quell shape off` takes the files away too.",
        fails: Fails::When("nothing of Quell's is in force there, or it waits to be confirmed"),
        call: calls!(shape::PersistArgs, shape::persist),
        ..of(Group::Act)
    },
    Command {
        name: "shape prove",
        about: "Load the line: does it pass the queues, and hold?",
        examples: "\
quell shape prove --dev eth0 --to far.example.org
quell shape prove --dev eth0 --to far.example.org --twin line.toml
quell shape prove --dev eth0 --in-lab",
        notes: "Needs a `quell serve` beyond the line. If more arrives than the rate allows, the queue does not shape. If more arrives than the queue \
                counted, it went around it: by another interface, or a path in hardware. Where \
                nothing waits in the queue it is unknown whether it is the narrowest place.",
        fails: Fails::When(
            "the rate does not hold, something goes around the queue, or --twin foretold something else",
        ),
        call: calls!(shape::ProveArgs, shape::prove),
        ..of(Group::Act)
    },
    Command {
        name: "shape recipe",
        about: "Print what to paste into OpenWrt, networkd or a shell",
        examples: "\
quell shape recipe --line 10/50 --for openwrt
quell shape recipe --line 10/50 --for openwrt --dev pppoe-wan > sqm
quell shape recipe --line 10/50 --for networkd --dev enp1s0 --try
quell shape recipe --line 10/50 --policy tiers --for tc > shape.sh",
        notes: "For machines on which Quell will never run. With --try the queues are tried in the lab first, which takes a minute; results are in comments above them. OpenWrt and networkd have CAKE only; tc has \
                all policies. Nothing of this machine is touched.",
        fails: Fails::When("a measurement in the lab did not come to its end"),
        call: calls!(shape::RecipeArgs, shape::recipe),
        ..of(Group::Act)
    },
    Command {
        name: "shape import",
        about: "A policy file from OpenWrt's sqm or LibreQoS' circuits",
        prints: Prints::Text,
        examples: "\
quell shape import sqm /etc/config/sqm > policy.toml
quell shape import libreqos ShapedDevices.csv > policy.toml",
        notes: "Comments at the top name what a policy can't express.",
        call: calls!(shape::ImportArgs, shape::import),
        ..of(Group::Act)
    },
    Command {
        name: "shape recover",
        about: "Bring back what was there before an unfinished change",
        examples: "quell shape recover",
        notes: "Needed only where a change was killed together with its watchdog.",
        fails: Fails::When("somebody is changing the same"),
        call: calls!(shape::RecoverArgs, shape::recover),
        ..of(Group::Act)
    },
    Command {
        name: "tune plan",
        about: "Show settings for a role, with reasons; touches nothing",
        examples: "\
quell tune plan --role transfer --rate 10Gbit --rtt 100ms
quell tune plan --role measure --rate 1Gbit --rtt-to far.example.org
quell tune plan --role latency --to 192.0.2.0/24 --reply 30kB
quell tune plan --role transfer --rate 1Gbit --rtt 100ms --prove lab",
        notes: "Values are computed, never below the running kernel's defaults. --prove lab measures a transfer in the lab over a path of \
                that rate and time, with the settings as they are and as planned.",
        fails: Fails::When("--prove shows no gain"),
        call: calls!(tune::PlanArgs, tune::plan),
        ..of(Group::Act)
    },
    Command {
        name: "tune apply",
        about: "Set them, now and for the next boot: all or none",
        examples: "\
quell tune apply --role transfer --rate 10Gbit --rtt 100ms
quell tune apply --role latency --confirm-within 5min
quell tune apply --role measure --rate 1Gbit --rtt 40ms --for-now
quell tune apply --role transfer --rate 1Gbit --rtt 100ms --prove 192.0.2.7",
        notes: "What was there is kept in /var/lib/quell; quell tune revert brings it back, after a reboot too. With --prove HOST it is \
                set and taken back in turn, a `quell serve` there measures, and it stays only if it helped.",
        fails: Fails::When("--prove shows no gain, or somebody is changing the same"),
        call: calls!(tune::ApplyArgs, tune::apply),
        ..of(Group::Act)
    },
    Command {
        name: "tune confirm",
        about: "Keep settings that wait for it, also for the next boot",
        examples: "quell tune confirm",
        fails: Fails::When("nothing waits"),
        call: calls!(tune::StatusArgs, tune::confirm),
        ..of(Group::Act)
    },
    Command {
        name: "tune status",
        about: "Show what is set, and what somebody has changed since",
        examples: "quell tune status\nquell tune status --json | jq .settings",
        fails: Fails::When("something is no longer as it was set, or is unfinished"),
        call: calls!(tune::StatusArgs, tune::status),
        ..of(Group::Act)
    },
    Command {
        name: "tune revert",
        about: "Bring back what was there before, after a reboot too",
        examples: "quell tune revert\nquell tune revert --keep-changed",
        fails: Fails::When("nothing is set, or somebody has changed it since"),
        call: calls!(tune::RevertArgs, tune::revert),
        ..of(Group::Act)
    },
    Command {
        name: "tune explain",
        about: "Say why values that others publish are not taken",
        examples: "\
quell tune explain handbook
quell tune explain others
quell tune explain net.ipv4.tcp_rmem",
        call: calls!(tune::ExplainArgs, tune::explain),
        ..of(Group::Act)
    },
    Command {
        name: "tune recover",
        about: "Bring back what was there before an unfinished change",
        examples: "quell tune recover",
        notes: "Needed only where a change was killed together with its watchdog.",
        fails: Fails::When("somebody is changing the same"),
        call: calls!(tune::StatusArgs, tune::recover),
        ..of(Group::Act)
    },
    RUN,
    Command {
        name: "lab run",
        about: "The same as `quell run`",
        examples: "quell lab run home-link",
        ..RUN
    },
    Command {
        name: "lab list",
        about: "Name the built-in experiments",
        examples: "quell lab list\nquell lab list --json | jq -r .[].name",
        call: calls!(Json, run::list),
        ..of(Group::Experiment)
    },
    Command {
        name: "lab show",
        about: "Print a built-in experiment's file, to copy and change",
        prints: Prints::Text,
        examples: "quell lab show home-link > mine.toml",
        call: calls!(run::ShowExperimentArgs, run::show_experiment),
        ..of(Group::Experiment)
    },
    Command {
        name: "lab check",
        about: "Check an experiment file without running it",
        examples: "\
quell lab check my.toml
quell lab check home-link --tc --set topology.link.dsl.up.rate=5Mbit",
        call: calls!(check::CheckArgs, check::check),
        ..of(Group::Experiment)
    },
    Command {
        name: "lab shell",
        about: "A shell on a host of the topology",
        prints: Prints::Program,
        examples: "quell lab shell home-link b",
        notes: "It needs a terminal; for a script, quell lab exec. A guest's shell sees this machine's files; what it writes is lost or refused. It is no sandbox: root in there \
         can do to these files what you can (docs/lab.md).",
        fails: Fails::AsProgram,
        call: calls!(lab::ShellArgs, lab::shell),
        ..of(Group::Experiment)
    },
    Command {
        name: "lab exec",
        about: "One program on a host of the topology, without input",
        prints: Prints::Program,
        examples: "\
quell lab exec home-link b -- ping -c 3 {server}
quell lab exec home-link a --with 'server: iperf3 -s -1' -- iperf3 -c {server}
quell lab exec home-link a --with 'server: python3 -m http.server' \\
    --after 1min -- \\
    curl -s -o /dev/null -w '%{time_total}' http://{server}:8000/",
        notes: "{NAME} becomes the IPv4 address of the host NAME, {NAME/6} for its IPv6 address. What the program writes to files of a guest \
                (/tmp, /dev/shm, /run) is lost when it ends: have it print what is to be kept, as \"tcpdump -w - > FILE\" does.",
        fails: Fails::AsProgram,
        call: calls!(lab::ExecArgs, lab::exec),
        ..of(Group::Experiment)
    },
    Command {
        name: "lab kernel build",
        about: "Build it, unless it is there already",
        prints: Prints::Text,
        examples: "quell lab kernel build\nquell lab kernel build --source linux-6.1.tar.xz",
        notes: "It prints the kernel's path.",
        call: calls!(kernel::BuildArgs, kernel::build),
        ..of(Group::Experiment)
    },
    Command {
        name: "lab kernel info",
        about: "Show its version, options, size, and when it was built",
        examples: "quell lab kernel info\nquell lab kernel info --json | jq .version",
        fails: Fails::When("there is none"),
        call: calls!(kernel::InfoArgs, kernel::info),
        ..of(Group::Experiment)
    },
    Command {
        name: "lab kernel path",
        about: "Print its path",
        prints: Prints::Text,
        examples: "quell lab kernel path || quell lab kernel build",
        fails: Fails::When("there is none"),
        call: calls!(kernel::Source, kernel::path),
        ..of(Group::Experiment)
    },
    Command {
        name: "lab kernel export",
        about: "Pack it into a file, to carry it to other machines",
        prints: Prints::Text,
        examples: "quell lab kernel export lab.kernel\nquell lab kernel import lab.kernel          (on another machine)",
        notes: "The same version of Quell on the same kind of machine takes it. The same kernel \
                gives the same bytes.",
        call: calls!(kernel::ExportArgs, kernel::export),
        ..of(Group::Experiment)
    },
    Command {
        name: "lab kernel import",
        about: "Take one that was packed elsewhere",
        prints: Prints::Text,
        examples: "quell lab kernel import lab.kernel && quell run home-link",
        notes: "Its checksums, architecture and key are looked at before anything is touched. That guards against damage and mistakes: a \
                kernel is a program that runs with your rights, so take it only from those whose programs you would run.",
        fails: Fails::When(
            "the file is none of `quell lab kernel export`, damaged, or not for this machine or version",
        ),
        call: calls!(kernel::ImportArgs, kernel::import),
        ..of(Group::Experiment)
    },
    Command {
        name: "show",
        about: "Show a run as tables; compare runs or scenarios; list runs",
        examples: "\
quell show                    (the latest run)
quell show --list             (which runs there are)
quell show before after       (compared: by how much, and how sure)
quell show --by scenario      (the scenarios of the latest run, compared)
quell show old new --by kernel --metric rtt.p99,goodput
quell show main branch --expect-no-worse=loss,rtt.p99
quell show --follow           (while it runs)",
        notes: "A run is named by its folder, its name, a part of the name, or `last`. Each run or scenario is compared with the first. \
                Repeats of the same seed are compared in pairs; an interval needs three repeats (`quell run --repeat 3`). \
                docs/comparing.md has the method.\n\n\
                --follow ends with the run, or when the program that writes it is gone. Ctrl-C ends the following, not the run.",
        fails: Fails::When("with --expect-no-worse something got worse, or may have"),
        call: calls!(show::ShowArgs, show::show),
        ..of(Group::Results)
    },
    Command {
        name: "mesh init",
        about: "Write a mesh's file to begin with",
        prints: Prints::Text,
        examples: "quell mesh init mesh.toml",
        notes: "The file names who measures whom, how and how often, and explains itself.",
        call: calls!(mesh::init::InitArgs, mesh::init::init),
        ..of(Group::Results)
    },
    Command {
        name: "mesh plan",
        about: "Show what a mesh would send and store",
        examples: "\
quell mesh plan mesh.toml
quell mesh plan mesh.toml --json | jq .bytes_per_month",
        notes: "Nothing is sent. Packets and bytes count answers too, with IP headers. A probe that can't be is refused, with the reason.",
        call: calls!(mesh::plan::PlanArgs, mesh::plan::plan),
        ..of(Group::Results)
    },
    Command {
        name: "mesh rights",
        about: "Write what a mesh's broker and its agents need",
        prints: Prints::Text,
        examples: "quell mesh rights mesh.toml -o mesh",
        notes: "The broker is nats-server, from 2.9 on. Its configuration lets each agent write its own rows and read its own plan. \
                For a host more, say it again: those that are there keep their credentials. `nats-server --signal reload` reads the new users.",
        call: calls!(mesh::bus::RightsArgs, mesh::bus::rights),
        ..of(Group::Results)
    },
    Command {
        name: "mesh apply",
        about: "Give each agent of a mesh its plan",
        prints: Prints::Text,
        examples: "quell mesh apply mesh.toml --bus nats://hub --credentials hub.credentials",
        call: calls!(mesh::bus::ApplyArgs, mesh::bus::apply),
        ..of(Group::Results)
    },
    Command {
        name: "mesh collect",
        about: "Keep what a mesh's agents measure; let them measure",
        prints: Prints::Text,
        examples: "\
quell mesh collect --bus nats://hub --credentials hub.credentials -o mesh
quell mesh collect --bus nats://hub -o mesh --copy backup:mesh
quell mesh collect --bus nats://hub -o mesh --copy rclone:s3:bucket/mesh",
        notes: "Agents measure only while a collector answers: without one they are silent within a lease, and keep what they have. With --copy nothing is \
                acknowledged that is not in the copy too, and an empty folder is filled from it. The programs rsync or rclone carry it.",
        call: calls!(mesh::bus::CollectArgs, mesh::bus::collect),
        ..of(Group::Results)
    },
    Command {
        name: "mesh status",
        about: "Tell which agents are there, and how slots ended",
        examples: "quell mesh status --bus nats://hub --credentials hub.credentials",
        notes: "Counts are since the collector began. A slot is one measurement that a plan asks for.",
        fails: Fails::When("an agent is gone, or nothing can be stored"),
        call: calls!(mesh::bus::StatusArgs, mesh::bus::status),
        ..of(Group::Results)
    },
    Command {
        name: "mesh show",
        about: "Show what a mesh saw: what became worse, where, since when",
        examples: "\
quell mesh show mesh                    (a sentence, the worst pairs)
quell mesh show mesh -o mesh.html       (matrix, smoke figures, paths)
quell mesh show mesh --pair fra-1,ams-2
quell mesh show mesh --pair fra-1,ams-2 -o pair.svg --last 168h
quell mesh show mesh --json | jq .says",
        notes: "Five minutes of a pair are held against its day before. What is worse at once has a cause in common where one explains it: an \
                agent, a site, a link, a direction. Agents whose names differ in a number at the end are one site. docs/many-machines.md has the rules.",
        call: calls!(mesh::show::ShowArgs, mesh::show::show),
        ..of(Group::Results)
    },
    Command {
        name: "mesh watch",
        about: "Call a program when a mesh breaks an expectation, and after",
        prints: Prints::Text,
        examples: "\
quell mesh watch mesh --expect 'p99 < 40ms' --exec /usr/local/bin/alert
quell mesh watch mesh --expect 'loss <= 1%' --expect 'p50 < 30ms' --exec 'logger mesh'",
        notes: "It is called once when any pair breaks a claim over five minutes, and once when all hold it again. QUELL_CHANGE is begin or end; \
                QUELL_SAYS is a sentence, QUELL_EXPECT the claim, QUELL_PAIRS a pair a line. A pair that is silent breaks each claim.",
        call: calls!(mesh::watch::WatchArgs, mesh::watch::watch),
        ..of(Group::Results)
    },
    Command {
        name: "open",
        about: "Open runs as one page: summary, comparison, every packet",
        prints: Prints::Text,
        examples: "\
quell open                    (the latest run)
quell open before after       (compared)
quell open 20261121T101503-ping -o ping.html --no-open",
        notes: "It prints the file's path. The page is one file, needs no network and can be sent to others.",
        call: calls!(open::OpenArgs, open::open),
        ..of(Group::Results)
    },
    Command {
        name: "plot",
        about: "Draw a figure of a run, or of runs beside each other",
        prints: Prints::Text,
        examples: "\
quell plot -o run.png         (the figure that suits the latest run best)
quell plot --list             (the figures that this run has data for)
quell plot --figure rtt-cdf -o cdf.png
quell plot ping --figure rtt-scatter --streams voip --log -o voip.svg
quell plot --figure goodput-time --scenarios bulk --from 5s --to 12s -o g.svg
quell plot before after --figure cdf -o cdf.pdf
quell plot --figure rtt-box --size 600x300 --dpi 300 --title '' -o b.png",
        notes: "Without -o the figure is an SVG in the run's folder. It prints the file's path.",
        call: calls!(plot::PlotArgs, plot::plot),
        ..of(Group::Results)
    },
    Command {
        name: "data import",
        about: "Make a run of what another program measured",
        examples: "\
quell data import rrul_be-2026-11-22.flent.gz calls.json
quell data import --from irtt calls.json.gz
iperf3 -c 192.0.2.7 -R -J > down.json; quell data import down.json
mtr -rwz example.net > path.txt; quell data import path.txt
quell show calls; quell plot calls --figure rtt-cdf -o cdf.png",
        notes: "It reads files of Flent (.flent.gz), irtt (-o), iperf3 (-J, --json-stream) and ping-exp (-w), and what ping and mtr \
                print, and finds out which it is. Nothing in a file is executed. What the run leaves out is said.",
        call: calls!(import::ImportArgs, import::import),
        ..of(Group::Results)
    },
    Command {
        name: "data gather",
        about: "Make one run of parts that many machines measured",
        examples: "\
quell run home-link --part 1/2 --out parts    (and 2/2 elsewhere)
quell data gather parts/* -o whole --audit 1%
quell show whole",
        notes: "In virtual time the run is that of one machine, byte for byte; docs/many-machines.md says what of the manifest belongs to \
                machines. A part without an end is left aside where the same part is whole. --audit picks measurements by chance.",
        fails: Fails::When("a measurement has other bytes when it is run again"),
        call: calls!(gather::GatherArgs, gather::gather),
        ..of(Group::Results)
    },
    Command {
        name: "data export csv",
        about: "A table of a run as comma-separated values",
        prints: Prints::Text,
        examples: "\
quell data export csv -o packets.csv                    (of the latest run)
quell data export csv 20261121T101503-home-link --table queues | head",
        notes: "docs/data.md tells what the columns mean and how to read the tables themselves, which are Parquet.",
        call: calls!(export::CsvArgs, export::csv),
        ..of(Group::Results)
    },
    Command {
        name: "data export flent",
        about: "A measurement of a run as a data file of Flent",
        prints: Prints::Text,
        examples: "\
quell run rrul_be
quell data export flent --measurement cake.all.0 -o cake.flent.gz
flent -p all_scaled -o cake.png cake.flent.gz",
        call: calls!(export::FlentArgs, export::flent),
        ..of(Group::Results)
    },
    Command {
        name: "data export prometheus",
        about: "A run's results as metrics, Prometheus or OpenMetrics",
        prints: Prints::Text,
        examples: "quell data export prometheus -o /var/lib/prometheus/node-exporter/quell.prom",
        notes: "In seconds, bytes and ratios. The file suits the text file collector of node_exporter.",
        call: calls!(export::PlainArgs, export::prometheus),
        ..of(Group::Results)
    },
    Command {
        name: "twin learn",
        about: "Measure a line as a whole: rate, delay, buffer, queue …",
        examples: "\
quell serve --bind 192.0.2.7                (at the other end)
quell twin learn 192.0.2.7
quell twin learn 192.0.2.7 -o home.toml --budget 30MB",
        notes: "It fills the line for some 75 s, 95 s where its rate varies. What the data can't tell is unknown, with the reason. docs/twin.md tells more.",
        fails: Fails::When(
            "it broke off; what was measured is written, once the direction up is known",
        ),
        call: calls!(twin::LearnArgs, twin::learn_line),
        ..of(Group::Measure)
    },
    Command {
        name: "twin from",
        about: "Tell a line from runs, or from what `twin learn --keep` kept",
        examples: "\
quell run rrul --on machines.toml
quell twin from rrul -o line.toml
quell twin from seen.json",
        notes: "Bounds are wide, and the kind of queue is unknown. What another program measured is a run after quell data import.",
        call: calls!(twin::FromArgs, twin::from),
        ..of(Group::Measure)
    },
    Command {
        name: "twin choose",
        about: "Try queues on a measured line's twin; write the best",
        examples: "\
quell twin choose line.toml
quell twin choose line.toml --for call -o policy.toml
quell shape apply --dev eth0 --file policy.toml",
        notes: "22 candidates, then the best eight and five of them for longer, in the lab: nothing of this machine is touched. A candidate is \
                host-fair or cake at a part of the measured rates; where the rate varies, with quell shape follow up to a part of the most.",
        fails: Fails::When("a rate is unknown, or a measurement did not come to its end"),
        call: calls!(twin_choose::ChooseArgs, twin_choose::choose),
        ..of(Group::Measure)
    },
    Command {
        name: "twin check",
        about: "Check a line's twin: the same loads on both",
        examples: "\
quell twin check
quell twin check line.toml 192.0.2.7 --budget 30MB
quell twin check line.toml --kernel host   (where the lab's own does not run)",
        notes: "One flow of BBR, eight of CUBIC, pages; and the same in the lab. Each goodput may differ by 3 %, each delay by 10 %, and by what the \
                file's bounds leave open. docs/twin.md tells more.",
        fails: Fails::When("the twin errs by more than that"),
        call: calls!(twin_check::CheckArgs, twin_check::check),
        ..of(Group::Measure)
    },
    Command {
        name: "twin show",
        about: "Show what was measured of a line; draw it",
        examples: "\
quell twin show line.toml
quell twin show line.toml -o line.svg
quell twin show line.toml --json | jq -r .up.queue.value",
        call: calls!(twin::TwinShowArgs, twin::show),
        ..of(Group::Measure)
    },
    Command {
        name: "series show",
        about: "Show what a line carried over time; draw it",
        examples: "\
quell series show line.csv
quell series show Verizon-LTE-driving.down
quell series show bw_1.txt delay_1.txt -o leo.svg
quell series show cake-autorate.primary.log --json | jq .down.rate_bps",
        notes: "It reads files of Mahimahi, LeoCC, CellReplay, iBoxNet, irtt, cake-autorate and StormGuard, and finds out which it is. A series repeats \
                after its end.",
        call: calls!(series::SeriesShowArgs, series::show),
        ..of(Group::Results)
    },
    Command {
        name: "series convert",
        about: "Write a series as another format, a file for each direction",
        prints: Prints::Text,
        examples: "\
quell series convert Verizon-LTE-driving.down -o lte.csv
quell series convert cake-autorate.primary.log -o home.csv   (home-up.csv, home-down.csv)
quell series convert --direction down cake-autorate.primary.log --to mahimahi -o home.down",
        notes: "It says what the format has no place for.",
        call: calls!(series::SeriesConvertArgs, series::convert),
        ..of(Group::Results)
    },
    Command {
        name: "series make",
        about: "Make a line of a usual kind: line.toml, and its series",
        prints: Prints::Text,
        examples: "\
quell series make docsis -o line.toml
quell series make lte --seed 3 -o lte.toml      (lte-up.csv, lte-down.csv)",
        notes: "An experiment uses it as a link: line = \"line.toml\". The same seed makes the same line. docs/lab.md tells the models and their sources.",
        call: calls!(series::SeriesMakeArgs, series::make),
        ..of(Group::Results)
    },
    Command {
        name: "completions",
        about: "Print what makes a shell complete quell's command line",
        prints: Prints::Text,
        examples: "\
quell completions bash > ~/.local/share/bash-completion/completions/quell
quell completions zsh > ~/.zfunc/_quell         (a folder of $fpath)
quell completions fish > ~/.config/fish/completions/quell.fish",
        notes: "`make install` puts them where the system's shells look.",
        call: calls!(CompletionsArgs, completion::completions),
        ..of(Group::Program)
    },
    Command {
        name: "man",
        about: "Print the manual page of a command",
        prints: Prints::Text,
        examples: "\
quell man ping
quell man shape apply
quell man ping > quell-ping.1               (as man(1) reads it)
quell man --folder ~/.local/share/man/man1  (all pages)",
        notes: "`make install` puts all pages where man(1) looks.",
        call: calls!(ManArgs, man),
        ..of(Group::Program)
    },
    Command {
        name: "version",
        about: "Print the version, and what a report of a fault needs",
        examples: "quell version",
        ..of(Group::Program)
    },
    Command {
        name: "agent",
        about: "Measure for a mesh, by the plan that its hub gives",
        prints: Prints::Text,
        examples: "quell agent --bus nats://hub --name fra --credentials fra.credentials",
        notes: "It carries out what /etc/quell/limits.toml allows, a file of root's. Packages have a service: systemctl enable --now quell-agent.\n\n\
                Without --bus it carries out tasks that come on standard input, as an experiment's hosts do.",
        call: calls!(AgentArgs, agent),
        ..of(Group::Measure)
    },
    inner("host-cell", "Outer process of a measurement on the host", calls!(DeskArgs, host_cell)),
    inner("host-init", "First process of a measurement on the host", calls!(DeskArgs, host_init)),
    inner(
        shape::WATCHDOG,
        "Bring things back where a change is not finished",
        calls!(shape::WatchdogArgs, shape::guard),
    ),
    inner(
        "host-lacks",
        "Tell what the running kernel lacks for plans",
        calls!(Nothing, host_lacks),
    ),
];

/// `quell run`, which is `quell lab run` too.
const RUN: Command = Command {
    name: "run",
    about: "Run an experiment: built in by name, or a file",
    examples: "\
quell run home-link
quell run home-link --duration 5s --seed 2
quell run home-link --line 10/50 --kind dsl
quell run home-link --set topology.link.dsl.up.buffer=50p --set expect=[]
quell run mine.toml --repeat 5 --out runs
quell run mine.toml --split 10 --for slurm >parts.sh   (many machines)
sudo quell run home-link --kernel host      (this kernel, in real time)",
    fails: Fails::When("an expectation or a task failed or it was stopped"),
    call: calls!(run::RunArgs, run::run),
    ..of(Group::Experiment)
};

/// What most commands of a group are: reports that no check makes fail.
const fn of(group: Group) -> Command {
    Command {
        name: "",
        about: "",
        group,
        prints: Prints::Report,
        examples: "",
        notes: "",
        fails: Fails::Never,
        call: calls!(Json, version),
    }
}

/// A command that only Quell starts.
const fn inner(name: &'static str, about: &'static str, call: Call) -> Command {
    Command { name, about, prints: Prints::Program, call, ..of(Group::Inner) }
}

#[derive(Debug, Args)]
struct Nothing {}

#[derive(Debug, Args)]
struct DeskArgs {
    /// The cell's folder
    folder: PathBuf,
}

fn man(args: &ManArgs) -> Result<ExitCode, Failure> {
    man::man(args, COMMANDS)
}

fn version(args: &Json) -> Result<ExitCode, Failure> {
    match args.json {
        true => println!("{:#}", crate::version::json()),
        false => print!("{}", crate::version::long()),
    }
    Ok(ExitCode::SUCCESS)
}

fn agent(args: &AgentArgs) -> Result<ExitCode, Failure> {
    if args.bus.bus.is_some() {
        return mesh::bus::agent(args);
    }
    let served = quell_experiment::agent::run(std::io::stdin(), std::io::stdout());
    done(served.map_err(|e| e.to_string()))
}

fn host_cell(args: &DeskArgs) -> Result<ExitCode, Failure> {
    done(quell_experiment::run::host_cell(&args.folder))
}

fn host_init(args: &DeskArgs) -> Result<ExitCode, Failure> {
    done(quell_experiment::run::host_init(&args.folder))
}

fn host_lacks(_: &Nothing) -> Result<ExitCode, Failure> {
    done(quell_experiment::run::host_lacks())
}

fn done(result: Result<(), String>) -> Result<ExitCode, Failure> {
    result.map(|()| ExitCode::SUCCESS).map_err(Failure::system)
}

#[cfg(test)]
mod tests;
