//! Progress for a person: a bar a scenario on a terminal; in a pipe a line a finished scenario, and one every few seconds.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use quell_experiment::run::RunProgress;
use std::io::{IsTerminal, Write};
use std::time::Duration;

pub struct Show {
    bars: Option<(MultiProgress, ProgressBar, Vec<ProgressBar>)>,
    told: Vec<bool>,
    /// When the last line went to a pipe.
    last: Duration,
}

/// Longest silence in a pipe.
const SILENCE: Duration = Duration::from_secs(5);

const STEPS: u64 = 1000;

impl Show {
    pub fn new(scenarios: &[String]) -> Self {
        let width = scenarios.iter().map(|s| s.chars().count()).max().unwrap_or(0).max(5);
        let bars = std::io::stderr().is_terminal().then(|| {
            let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(8));
            let scenario = style(&format!("  {{prefix:{width}}}  {{bar:40}}  {{percent:>3}} %"));
            let total =
                style(&format!("  {{prefix:{width}}}  {{bar:40}}  {{percent:>3}} %  {{msg}}"));
            let bars = scenarios
                .iter()
                .map(|name| {
                    let bar = all.add(ProgressBar::new(STEPS).with_style(scenario.clone()));
                    bar.set_prefix(name.clone());
                    bar
                })
                .collect();
            let sum = all.add(ProgressBar::new(STEPS).with_style(total));
            sum.set_prefix("all");
            (all, sum, bars)
        });
        Show { bars, told: vec![false; scenarios.len()], last: Duration::ZERO }
    }

    pub fn update(&mut self, progress: &RunProgress) {
        let left =
            progress.left.map_or("estimating …".to_string(), |l| format!("{} left", words(l)));
        match &self.bars {
            Some((_, sum, bars)) => {
                for (bar, (_, fraction)) in bars.iter().zip(&progress.scenarios) {
                    bar.set_position((fraction * STEPS as f64) as u64);
                }
                sum.set_position((progress.fraction * STEPS as f64) as u64);
                sum.set_message(left);
            }
            None => {
                let mut done = Vec::new();
                for (told, (name, fraction)) in self.told.iter_mut().zip(&progress.scenarios) {
                    if !*told && *fraction >= 1.0 {
                        *told = true;
                        done.push(format!("{name} done; "));
                    }
                }
                if done.is_empty() && progress.elapsed >= self.last + SILENCE {
                    done.push(String::new());
                }
                for what in done {
                    self.last = progress.elapsed;
                    // Standard error may be closed; then nobody wants to know.
                    let _ = writeln!(
                        std::io::stderr(),
                        "{what}{:.0} % of all after {}, {left}",
                        progress.fraction * 100.0,
                        words(progress.elapsed)
                    );
                }
            }
        }
    }

    pub fn finish(self) {
        if let Some((all, _, _)) = self.bars {
            // Only a terminal that is gone can't be cleared.
            let _ = all.clear();
        }
    }
}

/// A bar on standard error, drawn so often a second; only a terminal shows it.
pub fn bar(length: u64, a_second: u8, template: &str) -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr_with_hz(a_second),
        false => ProgressDrawTarget::hidden(),
    };
    ProgressBar::with_draw_target(Some(length), target).with_style(style(template))
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╸─")
}

/// A line on standard error that changes while something goes on; only a terminal shows it.
pub struct StatusLine {
    is_live: bool,
}

impl Default for StatusLine {
    fn default() -> Self {
        Self { is_live: std::io::stderr().is_terminal() }
    }
}

impl StatusLine {
    /// Columns of a terminal that is narrow, without the last two.
    const WIDTH: usize = 78;

    pub fn is_live(&self) -> bool {
        self.is_live
    }

    pub fn show(&self, words: &str) {
        if self.is_live {
            let line: String = words.chars().take(Self::WIDTH).collect();
            // Standard error may be closed; then nobody wants to know.
            let _ = write!(std::io::stderr(), "\r{line:<0$}", Self::WIDTH);
        }
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.show("");
        if self.is_live {
            let _ = write!(std::io::stderr(), "\r");
        }
    }
}

pub fn words(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 10.0 {
        format!("{seconds:.1} s")
    } else if seconds < 120.0 {
        format!("{seconds:.0} s")
    } else {
        format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60)
    }
}
