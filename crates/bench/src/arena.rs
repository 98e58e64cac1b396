//! Those who lead a shaper's rate over a line that varies, on the same lines in the lab: at the floor, at the mean, `quell shape follow`, and with
//! `--rival FOLDER` a checkout of cake-autorate as it is, under bash.
//!
//! ```text
//!   router ──wan── modem ════ server: quell serve         a series a seed: up and down, 500 kB of buffer before each
//!     └─ CAKE at a rate, led by one of them; then four TCP flows up, four down, and small packets beside them
//! ```

use crate::options::BenchOptions;
use crate::stats::{Scratch, median};
use quell_stats::Rng;
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The middle of a line in kbit/s, up and down; its floor is a fifth, its ceiling 2.5 times that.
const MIDDLE: [u64; 2] = [10_000, 25_000];

/// Mbit/s, and what packets waited longer than without load, in ms: median, 95 % and 99 % quantile.
type ArenaRow = [f64; 4];

pub fn bench(options: &BenchOptions) -> Result<(), String> {
    let scratch = Scratch::new()?;
    let seconds = options.seconds.unwrap_or(20);
    let mut contenders = vec!["floor", "mean", "follow"];
    contenders.extend(options.rival.is_some().then_some("rival"));
    println!(
        "{} lines of {seconds} s, four TCP flows; medians over the lines, of the last figure the worst too",
        options.rounds
    );
    println!("{:>10}  {:>4}  Mbit/s  p50 ms  p95 ms  p99 ms  worst", "", "");
    let contenders = contenders.into_iter().filter(|name| options.has(name));
    for name in contenders {
        let mut rows = [Vec::new(), Vec::new()];
        for seed in 1..=options.rounds as u64 {
            let both = run(options, scratch.path(), name, seed, seconds)
                .map_err(|why| format!("{name}, seed {seed}: {why}"))?;
            both.into_iter().zip(&mut rows).for_each(|(row, rows)| rows.push(row));
        }
        for (way, rows) in ["up", "down"].into_iter().zip(rows) {
            let of =
                |at: usize| median(&rows.iter().map(|row: &ArenaRow| row[at]).collect::<Vec<_>>());
            let worst = rows.iter().map(|row| row[3]).fold(0.0, f64::max);
            println!(
                "{name:>10}  {way:>4}  {:>6.2}  {:>6.1}  {:>6.1}  {:>6.1}  {worst:>5.0}",
                of(0),
                of(1),
                of(2),
                of(3)
            );
        }
    }
    Ok(())
}

/// A line as a mobile one: a step each 100 ms, in its logarithm a walk that returns to the middle. Its mean in kbit/s, and the file.
fn series(rng: &mut Rng, middle: u64, seconds: u64) -> (u64, String) {
    let mut text = "t_ms,rate_bps,delay_ms,loss\n".to_owned();
    let (mut at, mut sum) = (0.0_f64, 0);
    for step in 0..seconds * 10 {
        let normal: f64 = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        at = 0.93 * at + 0.22 * normal;
        let kbit =
            (middle as f64 * at.exp()).clamp(middle as f64 / 5.0, middle as f64 * 2.5) as u64;
        sum += kbit;
        let _ = writeln!(text, "{},{},15,", step * 100, kbit * 1000);
    }
    let _ = writeln!(text, "{}", seconds * 1000);
    (sum / (seconds * 10), text)
}

fn network(folder: &Path) -> Result<String, String> {
    let path = folder.join("line.toml");
    let line = "buffer = \"500kB\"";
    let text = format!(
        "name = \"arena\"\nduration = \"1s\"\n[topology]\nhosts = [\"a\", \"server\"]\nrouters = [\"router\", \"modem\"]\n\
         [[topology.link]]\nname = \"lan\"\nends = [\"a\", \"router\"]\n\
         [[topology.link]]\nname = \"wan\"\nends = [\"router\", \"modem\"]\n\
         [[topology.link]]\nname = \"line\"\nends = [\"modem\", \"server\"]\n\
         up = {{ series = \"up.csv\", {line} }}\ndown = {{ series = \"down.csv\", {line} }}\n\
         [[scenario]]\nname = \"s\"\n[[probe]]\nname = \"p\"\nkind = \"ping\"\nfrom = \"a\"\nto = \"server\"\ninterval = \"1s\"\n"
    );
    std::fs::write(&path, text).map_err(|e| e.to_string())?;
    Ok(path.display().to_string())
}

/// What leads the rate in the guest, as lines of a shell's script.
fn leads(
    options: &BenchOptions,
    name: &str,
    [up, down]: [u64; 2],
    folder: &Path,
) -> Result<String, String> {
    let [floor, ceiling] =
        [1, 2].map(|part| MIDDLE.map(|kbit| if part == 1 { kbit / 5 } else { kbit * 5 / 2 }));
    let fixed = |[up, down]: [u64; 2]| {
        format!(
            "$Q shape apply --dev wan --policy cake --up {up}kbit --down {down}kbit --confirm-within never >/dev/null\n"
        )
    };
    Ok(match (name, &options.rival) {
        ("floor", _) => fixed(floor),
        ("mean", _) => fixed([up, down]),
        ("rival", Some(rival)) => format!(
            "{}[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd\ncp -r {}/. /tmp/rival; cd /tmp/rival\n\
             sed -i 's/^dl_if=.*/dl_if=i-wan/; s/^ul_if=.*/ul_if=wan/; \
             s/^min_dl_shaper_rate_kbps=.*/min_dl_shaper_rate_kbps={}/; s/^base_dl_shaper_rate_kbps=.*/base_dl_shaper_rate_kbps={down}/; \
             s/^max_dl_shaper_rate_kbps=.*/max_dl_shaper_rate_kbps={}/; s/^min_ul_shaper_rate_kbps=.*/min_ul_shaper_rate_kbps={}/; \
             s/^base_ul_shaper_rate_kbps=.*/base_ul_shaper_rate_kbps={up}/; s/^max_ul_shaper_rate_kbps=.*/max_ul_shaper_rate_kbps={}/' config.primary.sh\n\
             printf 'pinger_method=fping\\nreflectors=(\"%s\")\\nno_pingers=1\\nlog_file_path_override=/tmp\\n' $SERVER >>config.primary.sh\n\
             CAKE_AUTORATE_SCRIPT_PREFIX=/tmp/rival bash ./cake-autorate.sh >/dev/null 2>&1 &\ncd /; sleep 15\n",
            fixed([up, down]),
            rival.display(),
            floor[1],
            ceiling[1],
            floor[0],
            ceiling[0]
        ),
        _ => {
            let mbit = |[up, down]: [u64; 2]| format!("{}/{}", up as f64 / 1e3, down as f64 / 1e3);
            let (floor, ceiling) = (mbit(floor), mbit(ceiling));
            let policy = format!(
                "policy = \"cake\"\nfollow = {{ floor = \"{floor}\", ceiling = \"{ceiling}\", signals = [\"stamp:server\"] }}\n"
            );
            let file = folder.join("follow.toml");
            std::fs::write(&file, policy).map_err(|e| e.to_string())?;
            format!(
                "$Q shape apply --dev wan --file {} --confirm-within never >/dev/null\nsleep 15\n",
                file.display()
            )
        }
    })
}

fn run(
    options: &BenchOptions,
    folder: &Path,
    name: &str,
    seed: u64,
    seconds: u64,
) -> Result<[ArenaRow; 2], String> {
    let mut rng = Rng::new(seed).derive("arena");
    let mut means = [0; 2];
    for ((file, middle), mean) in ["up.csv", "down.csv"].into_iter().zip(MIDDLE).zip(&mut means) {
        let (kbit, text) = series(&mut rng, middle, seconds);
        *mean = kbit;
        std::fs::write(folder.join(file), text).map_err(|e| e.to_string())?;
    }
    let network = network(folder)?;
    let quell = options.quell.display();
    let script = format!(
        "Q={quell}; SERVER=$0\n{}$Q flow server -4 -P 4 -t {seconds} --json; $Q flow server -4 -P 4 -R -t {seconds} --json\n",
        leads(options, name, means, folder)?
    );
    let serve = format!("server: {quell} serve --bind ::");
    let output = Command::new(&options.quell)
        .args([
            "lab", "exec", &network, "router", "--with", &serve, "--", "bash", "-c", &script,
            "{server}",
        ])
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{quell}: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let documents = serde_json::Deserializer::from_str(&said).into_iter::<Value>();
    let documents: Vec<Value> =
        documents.collect::<Result<_, _>>().map_err(|e| format!("{e}: {said}"))?;
    let row = |way: &str, at: usize| -> Option<ArenaRow> {
        let flow = documents.get(at)?;
        let idle = flow["latency"]["idle"]["min_ms"].as_f64()?;
        let of = |name: &str| Some(flow["latency"]["loaded"][name].as_f64()? - idle);
        let rate = flow[way]["bits_per_second"].as_f64()? / 1e6;
        Some([rate, of("p50_ms")?, of("p95_ms")?, of("p99_ms")?])
    };
    let both = row("up", 0).zip(row("down", 1));
    let both = both.ok_or_else(|| format!("{said}{}", String::from_utf8_lossy(&output.stderr)))?;
    Ok([both.0, both.1])
}
