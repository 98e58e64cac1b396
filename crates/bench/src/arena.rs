//! Those who lead a shaper's rate over a line that varies, on the same lines in the lab: at the floor, at the mean, `quell shape follow` by STAMP and by
//! flows alone, and with `--rival FOLDER` and `--qosmate FOLDER` checkouts of cake-autorate under bash and of QoSmate under busybox's ash, both as they are.
//! `unloaded` are the same probes with no flows beside them: what outages of the line cost whatever the rate.
//!
//! ```text
//!   router ──wan── modem ════ server: quell serve         line N: `quell series make KIND --seed N`
//!     └─ CAKE at a rate, led by one of them; then four TCP flows up, four down, and a probe each 10 ms beside them
//! ```

use crate::options::BenchOptions;
use crate::stats::{Scratch, quantile};
use quell_chart::{Axis, Figure, Panel, Scatter};
use quell_series::access_class::CLASSES;
use quell_units::Span;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Line N is of kind N mod 5, its seed is N. The follower was made on 1 to 10 and 101 to 110.
const KINDS: [&str; 5] = ["wifi", "lte", "5g", "leo", "docsis"];
/// Lines that are run at once.
const JOBS: usize = 2;
/// Those that lead a rate, and the line on which their CPU time is counted.
const LED: [&str; 4] = ["follow", "flows", "cake-autorate", "qosmate"];
const CPU_KIND: &str = "leo";
/// Time without load before each transfer, and for a follower to test its signals.
const IDLE_S: u64 = 2;
const BEGIN_S: u64 = 25;
/// What a call is said to bear, in ms.
const LATE_MS: f64 = 30.0;
/// Addresses of the far end, since rivals ask several reflectors.
const REFLECTORS: &str = "10.0.2.2 10.0.2.11 10.0.2.12 10.0.2.13 10.0.2.14 10.0.2.15";

/// One direction of one line: Mbit/s; what packets waited longer than the least, in ms: median, 95 % and 99 % quantile; per cent above 30 ms.
type ArenaRow = [f64; 5];
/// Line, its mean in Mbit/s each way, what came of it, and seconds of CPU of who led.
type LineRun = (u64, [f64; 2], [ArenaRow; 2], f64);

fn kind(line: u64) -> &'static str {
    KINDS[(line % KINDS.len() as u64) as usize]
}

pub fn bench(options: &BenchOptions) -> Result<(), String> {
    let seconds = options.seconds.unwrap_or(20);
    let rivals = [("cake-autorate", &options.rival), ("qosmate", &options.qosmate)];
    let rivals = rivals.into_iter().filter(|(_, folder)| folder.is_some()).map(|(name, _)| name);
    let ours = ["unloaded", "floor", "mean", "follow", "flows"];
    let contenders = ours.into_iter().chain(rivals);
    println!(
        "{} lines, four TCP flows of {seconds} s each way; means over the lines, and the worst p99",
        options.rounds
    );
    println!("{:>13}  {:>4}  Mbit/s  of mean  p50 ms  p95 ms  p99 ms  >30 ms  worst", "", "");
    let mut points = Vec::new();
    for name in contenders.filter(|name| options.has(name)) {
        let mut runs = all(options, name, seconds)?;
        runs.sort_by_key(|(line, ..)| *line);
        for (at, way) in ["up", "down"].into_iter().enumerate() {
            print_way(name, way, at, &runs);
            points.extend(KINDS.into_iter().filter_map(|kind| point(name, at, kind, &runs)));
        }
        if LED.contains(&name) {
            println!("{name:>13}   CPU  {}", cpu(options, name, seconds)?);
        }
    }
    match &options.draw {
        Some(file) => std::fs::write(file, figure(&points).svg())
            .map_err(|e| format!("{}: {e}", file.display())),
        None => Ok(()),
    }
}

/// What it takes of one CPU of a guest in real time: virtual time stands still while something runs.
fn cpu(options: &BenchOptions, name: &str, seconds: u64) -> Result<String, String> {
    let scratch = Scratch::new()?;
    let line = (0..).map(|n| options.first + n).find(|line| kind(*line) == CPU_KIND);
    let line = line.unwrap_or(options.first);
    let run = run(options, &scratch.path().join("cpu"), name, line, seconds, true)?;
    let percent = 100.0 * run.3 / (2 * (seconds + IDLE_S)) as f64;
    Ok(format!("{percent:.2} % on {CPU_KIND} {line}, in real time"))
}

fn print_way(name: &str, way: &str, at: usize, runs: &[LineRun]) {
    for (line, means, rows, _) in runs {
        let [mbit, p50, p95, p99, late] = rows[at];
        println!(
            "  {name} {way} {} {line}: {mbit:.2} of {:.2} Mbit/s, {p50:.1} {p95:.1} {p99:.1} ms, {late:.1} %",
            kind(*line),
            means[at]
        );
    }
    let mean = |of: &dyn Fn(&LineRun) -> f64| runs.iter().map(of).sum::<f64>() / runs.len() as f64;
    let [mbit, p50, p95, p99, late] = std::array::from_fn(|n| mean(&|run| run.2[at][n]));
    let share = mean(&|run| 100.0 * run.2[at][0] / run.1[at]);
    let worst = runs.iter().max_by(|a, b| a.2[at][3].total_cmp(&b.2[at][3]));
    let worst = worst.map_or(String::new(), |(line, _, rows, _)| {
        format!("{:.0} ({} {line})", rows[at][3], kind(*line))
    });
    println!(
        "{name:>13}  {way:>4}  {mbit:>6.2}  {share:>5.1} %  {p50:>6.1}  {p95:>6.1}  {p99:>6.1}  {late:>4.1} %  {worst}"
    );
}

/// Who led, up or down, and of the lines of a kind the means of goodput, in per cent of the line's mean, and of the 99 % quantile.
type ArenaPoint = (&'static str, usize, f64, f64);

/// None of who carried nothing.
fn point(name: &'static str, at: usize, of_kind: &str, runs: &[LineRun]) -> Option<ArenaPoint> {
    let own = || runs.iter().filter(|(line, ..)| kind(*line) == of_kind);
    let mean = |of: &dyn Fn(&LineRun) -> f64| own().map(of).sum::<f64>() / own().count() as f64;
    let share = mean(&|(_, means, rows, _)| 100.0 * rows[at][0] / means[at]);
    (share > 0.0).then(|| (name, at, share, mean(&|(_, _, rows, _)| rows[at][3])))
}

/// Goodput against delay, a point a kind of line.
fn figure(points: &[ArenaPoint]) -> Figure {
    let mut figure = Figure::new("What leads a shaper over a line that varies").columns(2);
    for (at, way) in ["up", "down"].into_iter().enumerate() {
        let x = Axis::linear("Goodput of the line's mean rate").unit("%");
        let y = Axis::log10("99 % of packets wait less than").unit("ms");
        let mut panel = Panel::new(x, y).title(way);
        let mut names: Vec<&str> = points.iter().map(|(name, ..)| *name).collect();
        names.dedup();
        for of in names {
            let own = points.iter().filter(|(name, to, ..)| (*name, *to) == (of, at));
            let own = own.map(|(.., share, ms)| (*share, ms.max(0.1)));
            panel = panel.mark(Scatter::new(of, own));
        }
        figure = figure.panel(panel);
    }
    figure
}

fn all(options: &BenchOptions, name: &str, seconds: u64) -> Result<Vec<LineRun>, String> {
    let scratch = Scratch::new()?;
    let (next, runs) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..JOBS {
            scope.spawn(|| {
                while let Some(line) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < options.rounds)
                {
                    let line = options.first + line as u64;
                    let folder = scratch.path().join(line.to_string());
                    match run(options, &folder, name, line, seconds, false) {
                        Ok(run) => runs.lock().map_or((), |mut runs| runs.push(run)),
                        Err(why) => println!("{name}, {} {line}: {why}", kind(line)),
                    }
                }
            });
        }
    });
    runs.into_inner().map_err(|e| e.to_string())
}

/// The line and its network as files; its mean rate in kbit/s each way.
fn made(options: &BenchOptions, folder: &Path, line: u64, length: u64) -> Result<[u64; 2], String> {
    let class = CLASSES.iter().find(|class| class.name == kind(line)).ok_or("no such kind")?;
    let made = class.make(line, Span::from_secs(length));
    let mean = |series: Option<quell_series::LineSeries>| series?.rate.map(|rate| rate.mean());
    let means = mean(made.up).zip(mean(made.down)).ok_or("it does not vary")?;
    std::fs::create_dir_all(folder).map_err(|e| e.to_string())?;
    let network = "name = \"arena\"\nduration = \"1s\"\n[topology]\nhosts = [\"a\", \"server\"]\nrouters = [\"router\", \"modem\"]\n\
         [[topology.link]]\nname = \"lan\"\nends = [\"a\", \"router\"]\n\
         [[topology.link]]\nname = \"wan\"\nends = [\"router\", \"modem\"]\n\
         [[topology.link]]\nname = \"line\"\nends = [\"modem\", \"server\"]\nline = \"made.toml\"\n\
         [[scenario]]\nname = \"s\"\n[[probe]]\nname = \"p\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"server\"\ninterval = \"1s\"\n";
    std::fs::write(folder.join("network.toml"), network).map_err(|e| e.to_string())?;
    let output = Command::new(&options.quell)
        .args(["series", "make", kind(line), "--seed", &line.to_string()])
        .args(["--duration", &format!("{length}s"), "-o"])
        .arg(folder.join("made.toml"))
        .output()
        .map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    output.status.success().then(|| [means.0, means.1].map(|rate| rate.bps() / 1000)).ok_or(said)
}

/// What leads the rate in the guest, as lines of a shell's script.
fn leads(
    options: &BenchOptions,
    name: &str,
    mean: [u64; 2],
    folder: &Path,
) -> Result<String, String> {
    let (floor, ceiling) = (mean.map(|kbit| kbit / 5), mean.map(|kbit| kbit * 5 / 2));
    let fixed = |[up, down]: [u64; 2]| {
        format!(
            "$Q shape apply --dev wan --policy cake --up {up}kbit --down {down}kbit --confirm-within never >/dev/null\n"
        )
    };
    let bounds = format!(
        "{}MIN_UL={} BASE_UL={} MAX_UL={} MIN_DL={} BASE_DL={} MAX_DL={}\nREFLECTORS='{REFLECTORS}'\n",
        fixed(mean),
        floor[0],
        mean[0],
        ceiling[0],
        floor[1],
        mean[1],
        ceiling[1]
    );
    Ok(match name {
        "floor" => fixed(floor),
        "mean" | "unloaded" => fixed(mean),
        "cake-autorate" => {
            let rival = options.rival.as_ref().ok_or("no folder of cake-autorate")?;
            format!("{bounds}RIVAL={}\n{CAKE_AUTORATE}", rival.display())
        }
        "qosmate" => {
            let rival = options.qosmate.as_ref().ok_or("no folder of QoSmate")?;
            format!("{bounds}RIVAL={}\n{QOSMATE}", rival.display())
        }
        _ => {
            let mbit = |[up, down]: [u64; 2]| format!("{}/{}", up as f64 / 1e3, down as f64 / 1e3);
            let (floor, ceiling) = (mbit(floor), mbit(ceiling));
            let policy = format!(
                "policy = \"cake\"\nfollow = {{ floor = \"{floor}\", ceiling = \"{ceiling}\", signals = [\"{}\"] }}\n",
                if name == "flows" { name } else { "stamp:server" }
            );
            let file = folder.join("follow.toml");
            std::fs::write(&file, policy).map_err(|e| e.to_string())?;
            format!(
                "$Q shape apply --dev wan --file {} --confirm-within never >/dev/null\n",
                file.display()
            )
        }
    })
}

/// Hundredths of a second that who leads the rate has used: our follower, and all that is not ours.
const CPU: &str = r#"cpu() { for p in /proc/[0-9]*; do [ $p = /proc/$$ ] && continue
case $(readlink $p/exe) in $Q) grep -q follow $p/cmdline || continue;; esac
sed 's/.*) //' $p/stat 2>/dev/null; done | awk '{ s += $12 + $13 + $14 + $15 } END { print s + 0 }'; }
"#;

const NO_LOAD: &str = r#"{"up":{"bits_per_second":0},"down":{"bits_per_second":0}}"#;

const CAKE_AUTORATE: &str = r#"
command -v fping >/dev/null || exit 1
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
mkdir /tmp/rival; cp -r $RIVAL/. /tmp/rival; cd /tmp/rival
cat >>config.primary.sh <<END
dl_if=i-wan ul_if=wan
connection_active_thr_kbps=$((MIN_UL < 2000 ? MIN_UL : 2000))
min_dl_shaper_rate_kbps=$MIN_DL base_dl_shaper_rate_kbps=$BASE_DL max_dl_shaper_rate_kbps=$MAX_DL
min_ul_shaper_rate_kbps=$MIN_UL base_ul_shaper_rate_kbps=$BASE_UL max_ul_shaper_rate_kbps=$MAX_UL
reflectors=($REFLECTORS) log_file_path_override=/tmp
END
CAKE_AUTORATE_SCRIPT_PREFIX=/tmp/rival bash ./cake-autorate.sh >/dev/null 2>&1 &
cd /tmp
"#;

/// Its root is a folder with busybox and what it asks of OpenWrt: a configuration, a log, an interface of that name.
const QOSMATE: &str = r#"
command -v busybox >/dev/null || exit 1
ip link set i-wan down; ip link set i-wan name ifb-wan; ip link set ifb-wan up
R=/tmp/root; mkdir -p $R/bin $R/lib $R/lib64 $R/usr $R/etc $R/tmp/qosmate $R/proc $R/sys $R/dev $R/sbin
cp $(command -v busybox) $R/bin/busybox; for a in sh ash sleep awk ping cat wc tail mv logger; do ln -s busybox $R/bin/$a; done
for f in /lib64 /usr /proc /sys /dev; do mount --bind $f $R$f; done
for d in /lib/*-linux-gnu; do ln -s /usr$d $R$d; done
ln -s $(command -v tc) $R/sbin/tc; cp $RIVAL/etc/qosmate-autorate*.sh $R/etc
cat >$R/lib/functions.sh <<END
config_load() { :; }
config_get() { eval "\$1=\\\${OF_\$3:-}"; }
uci() { :; }
tc() { /sbin/tc "\$@"; }
OF_WAN=wan OF_ROOT_QDISC=cake OF_UPRATE=$BASE_UL OF_DOWNRATE=$BASE_DL OF_reflectors='10.0.2.2 10.0.2.11 10.0.2.12'
OF_min_ul_rate=$MIN_UL OF_base_ul_rate=$BASE_UL OF_max_ul_rate=$MAX_UL
OF_min_dl_rate=$MIN_DL OF_base_dl_rate=$BASE_DL OF_max_dl_rate=$MAX_DL
END
PATH=/bin:/sbin chroot $R /bin/ash /etc/qosmate-autorate.sh run >/dev/null 2>&1 &
"#;

fn run(
    options: &BenchOptions,
    folder: &Path,
    name: &str,
    line: u64,
    seconds: u64,
    real_time: bool,
) -> Result<LineRun, String> {
    let mean = made(options, folder, line, BEGIN_S + 2 * (seconds + IDLE_S) + 5)?;
    let quell = options.quell.display();
    let lead = leads(options, name, mean, folder)?;
    let load = match name {
        "unloaded" => format!("sleep {seconds}; echo '{NO_LOAD}'"),
        _ => format!("$Q flow $SERVER -4 -P 4 $way -t {seconds} --json"),
    };
    let script = format!(
        "Q={quell}; SERVER=$0; cd /tmp\n{CPU}{lead}sleep {BEGIN_S}; had=$(cpu)\n\
         for way in '' -R; do $Q ping -4 -m udp $SERVER -i 10ms -d {}s --write p$way >/dev/null & P=$!; sleep {IDLE_S}\n\
         {load}; wait $P; $Q data export csv p$way; echo; done; echo $(($(cpu) - had))\n",
        seconds + IDLE_S
    );
    let addresses: String = REFLECTORS
        .split(' ')
        .skip(1)
        .map(|address| format!("ip addr add {address}/24 dev line; "))
        .collect();
    let serve = format!("server: sh -c '{addresses}exec {quell} serve --bind ::'");
    let network = folder.join("network.toml").display().to_string();
    let output = Command::new(&options.quell)
        .args(["lab", "exec"])
        .args(real_time.then_some("--real-time"))
        .args([&network, "router", "--with", &serve, "--", "bash", "-c", &script])
        .arg("{server}")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{quell}: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let parts: Vec<&str> = said.split("\n\n").collect();
    let way = |at: usize, way: &str| row(parts.get(at)?, way);
    let both = way(0, "up").zip(way(1, "down"));
    let both = both.ok_or_else(|| format!("{said}{}", String::from_utf8_lossy(&output.stderr)))?;
    let ticks = parts.last().and_then(|ticks| ticks.trim().parse::<f64>().ok()).unwrap_or(f64::NAN);
    Ok((line, mean.map(|kbit| kbit as f64 / 1e3), [both.0, both.1], ticks / 100.0))
}

/// Of what `quell flow --json` said, and a table of probes.
fn row(said: &str, way: &str) -> Option<ArenaRow> {
    let (flow, table) = said.split_once("t_ns,")?;
    let flow: Value = serde_json::from_str(flow).ok()?;
    let all = table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split(',');
        let at = fields.next()?.parse::<u64>().ok()?;
        Some((at, fields.nth(5)?.parse::<f64>().ok()? / 1e6))
    });
    let all: Vec<(u64, f64)> = all.collect();
    let least = all.iter().map(|(_, ms)| *ms).fold(f64::INFINITY, f64::min);
    let loaded = all.iter().filter(|(at, _)| *at > IDLE_S * 1_000_000_000);
    let added: Vec<f64> = loaded.map(|(_, ms)| ms - least).collect();
    let late = added.iter().filter(|ms| **ms > LATE_MS).count() as f64 / added.len() as f64;
    let [p50, p95, p99] = [0.5, 0.95, 0.99].map(|share| quantile(&added, share));
    Some([flow[way]["bits_per_second"].as_f64()? / 1e6, p50, p95, p99, 100.0 * late])
}
