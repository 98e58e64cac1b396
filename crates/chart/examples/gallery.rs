//! Draws every kind of figure with made-up but plausible data: `gallery OUTDIR [light|dark]`.

use quell_chart::{
    Axis, Band, Bars, Bins, Boxes, Ecdf, Figure, FiveNumbers, Histogram, Legend, Mark, Panel,
    Polyline, Scatter, Stack, Theme,
};
use std::path::Path;

/// A small generator, so that the gallery is the same everywhere (Steele et al., SplitMix64).
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponential with this mean.
    fn tail(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }
}

const SCENARIOS: [&str; 6] = [
    "unloaded",
    "unloaded, shaped",
    "three bulk uploads",
    "three bulk uploads, shaped",
    "UDP flood 8 Mbit/s",
    "UDP flood 8 Mbit/s, shaped",
];

/// Typical delay and its tail in ms.
const DELAY: [(f64, f64); 6] =
    [(20.1, 0.3), (20.0, 0.3), (380.0, 60.0), (20.4, 1.2), (560.0, 15.0), (20.3, 0.9)];

fn delays(scenario: usize, count: usize, noise: &mut Noise) -> Vec<f64> {
    let (typical, tail) = DELAY[scenario];
    (0..count).map(|_| typical + noise.tail(tail)).collect()
}

fn rtt_over_time() -> Figure {
    let mut noise = Noise(1);
    let names = [
        "CS0 to 192.0.2.1",
        "EF to 192.0.2.1",
        "CS1 to 192.0.2.1",
        "CS0 to 2001:db8::1",
        "EF to 2001:db8::1",
        "CS1 to 2001:db8::1",
    ];
    let streams = names.iter().enumerate().map(|(i, name)| {
        let points: Vec<_> = (0..300)
            .map(|k| {
                let t = f64::from(k) * 0.2 + i as f64 * 0.03;
                let load = (10.0..40.0).contains(&t);
                let queue = if load { [55.0, 3.0, 190.0, 60.0, 4.0, 210.0][i] } else { 0.3 };
                let ramp = if load { ((t - 10.0) / 4.0).min(1.0) } else { 1.0 };
                (t, 20.0 + queue * ramp * (0.7 + 0.5 * noise.uniform()) + noise.tail(0.8))
            })
            .collect();
        Scatter::new(*name, points)
    });
    Figure::new("Priority keeps marked packets out of the bulk queue")
        .subtitle("Six ping streams at once through a 2.5 Mbit/s uplink, one packet every 200 ms each")
        .note("Three TCP uploads run from 10 s to 40 s. Lab network, 20 ms base delay, buffer of 100 packets.")
        .panel(
            Panel::new(
                Axis::linear("Time").unit("s"),
                Axis::linear("Round-trip time").unit("ms").with_zero(),
            )
            .mark(Mark::phase(10.0, 40.0, "three uploads"))
            .marks(streams)
            .mark(Mark::reference(20.0, "base delay 20 ms")),
        )
}

fn distribution() -> Figure {
    let mut noise = Noise(2);
    let curves = SCENARIOS.iter().enumerate().map(|(i, name)| {
        let mut values = delays(i, 800, &mut noise);
        values.sort_by(f64::total_cmp);
        let arrived = [1.0, 1.0, 0.91, 1.0, 0.31, 1.0][i];
        let n = values.len() as f64;
        Ecdf::new(
            *name,
            values.into_iter().enumerate().map(move |(k, v)| (v, (k + 1) as f64 / n * arrived)),
        )
    });
    Figure::new("Shaped, the link answers under load as if it were idle")
        .subtitle("Distribution of round-trip times; a curve that stays below 100 % lost packets")
        .size(760, 460)
        .panel(
            Panel::new(
                Axis::log10("Round-trip time").unit("ms"),
                Axis::linear("Share of packets sent").percent(),
            )
            .marks(curves)
            .mark(Mark::event(150.0, "ITU-T G.114: 150 ms")),
        )
}

fn boxes(upright: bool) -> Figure {
    let mut noise = Noise(3);
    let mut boxes = Boxes::new("");
    for i in 0..SCENARIOS.len() {
        let mut v = delays(i, 400, &mut noise);
        v.sort_by(f64::total_cmp);
        let q = |p: f64| v[(p * (v.len() - 1) as f64) as usize];
        let reach = 1.5 * (q(0.75) - q(0.25));
        let inside: Vec<f64> =
            v.iter().copied().filter(|x| (q(0.25) - reach..=q(0.75) + reach).contains(x)).collect();
        boxes = boxes.at(
            i,
            FiveNumbers {
                low: inside[0],
                q1: q(0.25),
                median: q(0.5),
                q3: q(0.75),
                high: inside[inside.len() - 1],
                outliers: v.iter().copied().filter(|x| *x > inside[inside.len() - 1]).collect(),
            },
        );
    }
    let figure = Figure::new("Round-trip time by scenario")
        .subtitle("400 packets each; whiskers reach 1.5 interquartile ranges");
    let names = Axis::categories("", SCENARIOS);
    let values = Axis::log10("Round-trip time").unit("ms");
    let (x, y) = if upright { (names, values) } else { (values, names) };
    figure.panel(Panel::new(x, y).mark(boxes))
}

fn goodput() -> Figure {
    let mut noise = Noise(4);
    let x: Vec<f64> = (0..=240).map(|k| f64::from(k) * 0.25).collect();
    let mut stack = Stack::new(x.clone()).stepped();
    for (i, name) in
        ["scp from A, 1", "scp from A, 2", "scp from A, 3", "scp from B"].iter().enumerate()
    {
        let values = x.iter().map(|t| {
            let running = if i < 3 { *t >= 10.0 } else { *t >= 5.0 && *t < 50.0 };
            let fair = if *t < 30.0 {
                0.25
            } else if i == 3 {
                0.5
            } else {
                0.5 / 3.0
            };
            let fair = if *t < 10.0 {
                0.95
            } else if *t >= 50.0 {
                1.0 / 3.0
            } else {
                fair
            };
            if running { 2.3e6 * fair * (0.92 + 0.1 * noise.uniform()) } else { 0.0 }
        });
        stack = stack.layer(*name, values.collect::<Vec<_>>());
    }
    Figure::new("Host fairness gives B half of the link")
        .subtitle("Goodput of four uploads by flow, means of 250 ms")
        .panel(
            Panel::new(Axis::linear("Time").unit("s"), Axis::linear("Goodput").si_unit("bit/s"))
                .mark(stack)
                .mark(Mark::event(5.0, "B starts"))
                .mark(Mark::event(10.0, "A starts three"))
                .mark(Mark::event(30.0, "host fairness on"))
                .mark(Mark::event(50.0, "B ends"))
                .mark(Mark::reference(2.5e6, "link rate 2.5 Mbit/s")),
        )
}

fn queues() -> Figure {
    let mut noise = Noise(5);
    let mut level: f64 = 0.0;
    let modem: Vec<_> = (0..3000)
        .map(|k| {
            let t = f64::from(k) * 0.02;
            let grow = if (10.0..40.0).contains(&t) { 1.2 } else { -3.0 };
            level = (level + grow * noise.uniform()).clamp(0.0, 100.0);
            if level >= 99.0 {
                level *= 0.55 + 0.3 * noise.uniform();
            }
            (t, (!(22.0..24.0).contains(&t)).then_some(level.round()))
        })
        .collect();
    let shaped: Vec<_> = (0..3000)
        .map(|k| {
            let t = f64::from(k) * 0.02;
            let busy = (10.0..40.0).contains(&t);
            (t, if busy { (noise.tail(3.0)).min(20.0).round() } else { 0.0 })
        })
        .collect();
    let delay = |base: f64, load: f64, noise: &mut Noise| -> Vec<(f64, f64, f64, f64)> {
        (0..=60)
            .map(|t| {
                let t = f64::from(t);
                let mean = base
                    + if (10.0..40.0).contains(&t) {
                        load * (0.8 + 0.2 * noise.uniform())
                    } else {
                        0.2
                    };
                (t, mean - mean * 0.08, mean, mean + mean * 0.11)
            })
            .collect()
    };
    let (slow, quick) = (delay(20.0, 450.0, &mut noise), delay(20.0, 2.0, &mut noise));
    let x = || Axis::linear("Time").unit("s").from(0.0).to(60.0);
    let band =
        |name: &str, d: &[(f64, f64, f64, f64)]| Band::new(name, d.iter().map(|p| (p.0, p.1, p.3)));
    let line =
        |name: &str, d: &[(f64, f64, f64, f64)]| Polyline::new(name, d.iter().map(|p| (p.0, p.2)));
    Figure::new("The queue moves from the modem into the router, and shrinks")
        .subtitle("Backlog of the bottleneck and the delay it causes; band: 95 % confidence interval of the mean")
        .note("The modem's counters could not be read from 22 s to 24 s.")
        .size(760, 560)
        .share_x()
        .panel(
            Panel::new(x(), Axis::linear("Backlog").unit("packets").with_zero())
                .mark(Polyline::with_gaps("not shaped", modem).stepped())
                .mark(Polyline::new("shaped", shaped).stepped())
                .mark(Mark::event(10.0, "uploads start"))
                .mark(Mark::event(40.0, "uploads end")),
        )
        .panel(
            Panel::new(x(), Axis::log10("Round-trip time").unit("ms"))
                .mark(band("not shaped", &slow))
                .mark(line("not shaped", &slow))
                .mark(band("shaped", &quick))
                .mark(line("shaped", &quick))
                .mark(Mark::event(10.0, ""))
                .mark(Mark::event(40.0, "")),
        )
}

fn histogram() -> Figure {
    let mut noise = Noise(6);
    let mut gaps: Vec<f64> = (0..6000).map(|_| 120e-6 + noise.tail(90e-6)).collect();
    gaps.extend((0..700).map(|_| 0.040 + noise.tail(0.002)));
    gaps.extend([0.0; 3]);
    Figure::new("One answer in nine waits for a delayed ACK")
        .subtitle("Time between request and answer, 6703 calls, ten bins in each decade")
        .panel(
            Panel::new(Axis::log10("Time to answer").si_unit("s"), Axis::linear("Calls"))
                .mark(Histogram::of("", &gaps, Bins::PerDecade(10)))
                .mark(Mark::event(0.04, "40 ms: least delayed-ACK timer")),
        )
}

fn bars() -> Figure {
    let values = [[2.31, 1.08, 0.02], [2.28, 1.12, 1.06], [2.29, 1.15, 1.14]];
    let series = ["no shaping", "fq_codel alone", "host-fair policy"];
    let x = Axis::categories("", ["unloaded", "three uploads", "flood"]);
    let bars = series.iter().zip(values).map(|(name, row)| {
        row.iter()
            .enumerate()
            .fold(Bars::new(*name), |bars, (i, v)| bars.with_interval(i, *v, v * 0.94, v * 1.05))
    });
    Figure::new("Goodput of host B")
        .subtitle("Mean of 18 runs of 20 s, 95 % confidence interval")
        .panel(
            Panel::new(x, Axis::linear("Goodput").unit("Mbit/s"))
                .marks(bars)
                .mark(Mark::reference(1.15, "half of the link")),
        )
}

fn many() -> Figure {
    let mut noise = Noise(7);
    let mut panel = |title: &str, log: bool| {
        let y = if log { Axis::log10("Window") } else { Axis::linear("Window") };
        let mut panel = Panel::new(Axis::linear("Time").unit("s"), y.unit("segments")).title(title);
        for flow in 0..14 {
            let mut w = 10.0 + f64::from(flow) * 4.0;
            let points: Vec<_> = (0..200)
                .map(|k| {
                    w = if noise.uniform() < 0.03 { (w * 0.6).max(2.0) } else { w + 0.4 };
                    (f64::from(k) * 0.15, w)
                })
                .collect();
            panel = panel
                .mark(Polyline::new(format!("flow {} (10.0.0.{})", flow + 1, flow + 1), points));
        }
        panel
    };
    Figure::new("Fourteen flows, two congestion controls")
        .subtitle("A figure at the limit of what lines can tell")
        .size(900, 440)
        .columns(2)
        .legend(Legend::Right)
        .panel(panel("Reno", false))
        .panel(panel("CUBIC", true))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().ok_or("where to? gallery OUTDIR [light|dark]")?;
    let theme =
        if arguments.next().as_deref() == Some("dark") { Theme::Dark } else { Theme::Light };
    std::fs::create_dir_all(&out)?;
    let figures = [
        ("rtt", rtt_over_time()),
        ("cdf", distribution()),
        ("boxes", boxes(true)),
        ("boxes-across", boxes(false)),
        ("goodput", goodput()),
        ("queues", queues()),
        ("histogram", histogram()),
        ("bars", bars()),
        ("many", many()),
        (
            "empty",
            Figure::new("Nothing arrived").panel(
                Panel::new(
                    Axis::linear("Time").unit("s"),
                    Axis::linear("Round-trip time").unit("ms"),
                )
                .mark(Polyline::new("lost", [(0.0, f64::NAN)])),
            ),
        ),
    ];
    for (name, figure) in figures {
        let stem = Path::new(&out).join(name);
        std::fs::write(stem.with_extension("svg"), figure.svg())?;
        std::fs::write(stem.with_extension("png"), figure.draw(theme).png(2.0)?)?;
    }
    Ok(())
}
