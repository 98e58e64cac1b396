//! `quell lab kernel`: building, finding and describing the lab's guest kernel.

use crate::failure::Failure;
use crate::interrupt;
use crate::options::Json;
use crate::progress::{bar, words};
use clap::Args;
use quell_experiment::run::GuestKernel;
use quell_lab::kernel::{self, BuildProgress, CarryError, KernelOptions, Series};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct BuildArgs {
    #[command(flatten)]
    pub source: Source,
    /// Build it again even if it is there
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Where to: a file's name
    pub file: PathBuf,
    #[command(flatten)]
    pub source: Source,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    /// What `quell lab kernel export` wrote
    pub file: PathBuf,
    /// Take it even if the same is there
    #[arg(long)]
    pub force: bool,
}

#[derive(Debug, Args)]
pub struct InfoArgs {
    #[command(flatten)]
    pub source: Source,
    #[command(flatten)]
    pub json: Json,
}

/// Where the kernel comes from.
#[derive(Debug, Clone, Args)]
pub struct Source {
    /// Source of the kernel: a tree or a tarball; by default Debian's linux-source-6.1
    #[arg(long, value_name = "PATH")]
    pub source: Option<PathBuf>,
    /// Which series of kernels, by Debian's package linux-source-SERIES: 6.1, the usual one, or 6.12
    #[arg(long, value_name = "SERIES", conflicts_with_all = ["source", "kernel_file"])]
    pub version: Option<Series>,
    /// A ready kernel instead of one that Quell builds
    #[arg(long, value_name = "FILE")]
    pub kernel_file: Option<PathBuf>,
}

pub fn path(source: &Source) -> Result<ExitCode, Failure> {
    let found = kernel::find(&options(source)).map_err(Failure::check)?;
    println!("{}", found.path.display());
    Ok(ExitCode::SUCCESS)
}

fn options(source: &Source) -> KernelOptions {
    KernelOptions {
        source: source.source.clone(),
        series: source.version,
        kernel_file: source.kernel_file.clone(),
        ..KernelOptions::default()
    }
}

/// The kernel to run guests with; says how to get one where there is none.
pub fn found(kernel_file: Option<&Path>, series: Option<Series>) -> Result<GuestKernel, Failure> {
    let kernel_file = kernel_file.map(Path::to_path_buf);
    let options = KernelOptions { kernel_file, series, ..KernelOptions::default() };
    let found = kernel::find(&options).and_then(|k| kernel::info(&k)).map_err(|e| {
        let next = match series {
            Some(series) => format!("build it once with `quell lab kernel build --version {series}` (some minutes)"),
            None => "take one that is built: `quell lab kernel import FILE` (seconds)\nor build it: `quell lab kernel build` (3 minutes on two cores)\nor run on this kernel: --kernel host".to_owned(),
        };
        Failure::system(format!("{e}\n{next}"))
    })?;
    let key = found.built.map(|b| b.key).unwrap_or_default();
    Ok(GuestKernel { path: found.path, version: found.version, key })
}

pub fn build(args: &BuildArgs) -> Result<ExitCode, Failure> {
    let mut options = options(&args.source);
    options.force = args.force;
    let cancel = interrupt::bell()?;
    options.cancel = Some(cancel);
    let bar = bar(1000, 4, "  {prefix:12} {bar:40} {percent:>3} %  {msg}");
    let mut told = String::new();
    let mut told_tenth = 0;
    let built = kernel::build(&options, &mut |progress: &BuildProgress| {
        let left = progress.left.map_or(String::new(), |l| format!("about {} left", words(l)));
        bar.set_prefix(progress.phase.clone());
        bar.set_position((progress.fraction * 1000.0) as u64);
        bar.set_message(left.clone());
        let tenth = (progress.fraction * 10.0) as u32;
        if bar.is_hidden() && (told != progress.phase || tenth > told_tenth) {
            eprintln!("{}: {:.0} %  {left}", progress.phase, progress.fraction * 100.0);
            told.clone_from(&progress.phase);
            told_tenth = tenth;
        }
    });
    bar.finish_and_clear();
    let built = built.map_err(Failure::system)?;
    println!("{}", built.path.display());
    Ok(ExitCode::SUCCESS)
}

pub fn info(args: &InfoArgs) -> Result<ExitCode, Failure> {
    let found = kernel::find(&options(&args.source)).map_err(Failure::check)?;
    let info = kernel::info(&found).map_err(Failure::system)?;
    if args.json.json {
        let mut value = serde_json::to_value(&info).map_err(Failure::system)?;
        // The cache's word for it says no unit.
        if let Some(keys) = value.as_object_mut() {
            keys.remove("size");
        }
        value["size_bytes"] = info.size.into();
        println!("{}", crate::text::document(&value));
        return Ok(ExitCode::SUCCESS);
    }
    print!("{info}");
    Ok(ExitCode::SUCCESS)
}

pub fn export(args: &ExportArgs) -> Result<ExitCode, Failure> {
    let found = kernel::find(&options(&args.source)).map_err(|e| {
        Failure::system(format!("{e}\nbuild it once with `quell lab kernel build`, then export it"))
    })?;
    let bytes = kernel::export(&found).map_err(Failure::system)?;
    quell_store::write_output(&args.file, &bytes)
        .map_err(|e| Failure::system(format!("writing {}: {e}", args.file.display())))?;
    println!("{}", args.file.display());
    Ok(ExitCode::SUCCESS)
}

pub fn import(args: &ImportArgs) -> Result<ExitCode, Failure> {
    let options = KernelOptions { force: args.force, ..KernelOptions::default() };
    let imported = kernel::import(&args.file, &options).map_err(|e| match e {
        CarryError::Refused { .. } => Failure::check(e),
        other => Failure::system(other),
    })?;
    if imported.was_there {
        eprintln!("the same kernel was there already, and is whole: nothing was changed");
    }
    println!("{}", imported.kernel.path.display());
    Ok(ExitCode::SUCCESS)
}
