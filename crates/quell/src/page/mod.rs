//! `quell page`: loads pages in a real browser, and tells what they waited for. Arguments and text; the rest is in `crates/page`.

mod text;

use crate::failure::Failure;
use crate::interrupt;
use crate::options::{Json, Place};
use crate::results;
use crate::text::columns;
use clap::Args;
use quell_model::page::{HttpVersion, PageLoad};
use quell_page::{PageError, PagePlan, PageReport, PageSink, address};
use quell_units::Span;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct PageArgs {
    /// The pages; by default https://
    #[arg(value_name = "URL", required = true)]
    pub urls: Vec<String>,
    /// Loads of each page, each with an empty cache and new connections
    #[arg(short = 'c', long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub count: u32,
    /// After each load, load it again with the cache and the connections of the first
    #[arg(long)]
    pub warm: bool,
    /// The browser; by default Chromium from the PATH
    #[arg(long, value_name = "PATH")]
    pub browser: Option<PathBuf>,
    /// How long a load may take
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub timeout: Span,
    /// Show what each request of the first load waited for
    #[arg(long)]
    pub waterfall: bool,
    /// Don't measure how fast the browser's scripts are
    #[arg(long)]
    pub no_scripts: bool,
    /// Run scripts without the browser's compiler (--jitless): the same page in a slow browser
    #[arg(long)]
    pub no_jit: bool,
    /// Take any certificate: for a server that made its own, for example `quell serve --web`
    #[arg(long)]
    pub insecure: bool,
    /// Load pages by this version of HTTP and no other: 1.1, 2 or 3; by default what browser and server agree on
    #[arg(long, value_name = "VERSION")]
    pub http: Option<HttpVersion>,
    /// Keep every load with its requests as a run, for `quell show`, `compare`, `plot` and `open`
    #[arg(long)]
    pub save: bool,
    /// Also take addresses that are neither http: nor https:, for example file:
    #[arg(long)]
    pub any_scheme: bool,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub json: Json,
}

pub fn page(args: &PageArgs) -> Result<ExitCode, Failure> {
    let urls = args.urls.iter().map(|url| address(url, args.any_scheme));
    let plan = PagePlan {
        urls: urls.collect::<Result<_, _>>().map_err(Failure::usage)?,
        count: args.count,
        warm: args.warm,
        browser: args.browser.clone(),
        timeout: args.timeout,
        scripts: !args.no_scripts,
        no_jit: args.no_jit,
        insecure: args.insecure,
        http: args.http,
    };
    let stop = interrupt::bell()?;
    let base = args.save.then_some(&*args.place.base);
    let mut table = LoadTable {
        text: String::new(),
        live: std::io::stderr().is_terminal(),
        waterfall: args.waterfall,
        width: columns(),
    };
    let report = quell_page::run(&plan, base, &stop, &mut table)?;
    match args.json.json {
        true => println!("{}", crate::text::document(&report)),
        false => {
            let opening = text::opening(&report, table.width);
            print!("{opening}{}{}", table.text, text::closing(&report, table.width));
            if let Some(run) = &report.run {
                println!("\nkept as {}", results::shown(run));
            }
        }
    }
    match &report.error {
        Some(error) => Err(Failure::system(error)),
        None => Ok(ExitCode::from(u8::from(!report.is_fine()))),
    }
}

impl From<PageError> for Failure {
    fn from(error: PageError) -> Self {
        match error {
            PageError::Parameter(_) => Failure::usage(error),
            PageError::UnknownKey(_) => Failure::check(error),
            error => Failure::system(error),
        }
    }
}

/// What is said of each load; while they come only how many there were.
struct LoadTable {
    text: String,
    live: bool,
    waterfall: bool,
    width: usize,
}

impl PageSink for LoadTable {
    fn begin(&mut self, report: &PageReport) {
        self.text += &text::headline(report, self.width);
    }

    fn page(&mut self, url: &str) {
        self.text += &text::page_head(url, self.width);
    }

    fn load(&mut self, load: &PageLoad) {
        if self.live {
            eprint!("\rload {}", load.number + 1);
        }
        self.text += &text::row(load, self.width);
    }

    fn page_end(&mut self, loads: &[PageLoad]) {
        if self.live {
            eprint!("\r{:<20}\r", "");
        }
        self.text += &text::page_foot(loads, self.waterfall, self.width);
    }
}
