//! Building a kernel: unpack, edit, configure, compile, strip, try, and put it in place in one step.

use crate::cache::{self, Building, CONFIG, CacheError, KernelSource};
use crate::job::{self, JobError};
use crate::{Built, EditError, Info, Kernel, KernelOptions, NotReady, Ready, Series, edit, ready};
use nix::fcntl::{Flock, FlockArg};
use quell_sys::trusted::TrustedFolder;
use quell_sys::wait::{Bell, came, readable, wait};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, PartialEq)]
pub struct BuildProgress {
    /// What is being done, in a word or two: `unpack`, `compile`.
    pub phase: String,
    /// How much of the whole is done, 0 to 1.
    pub fraction: f64,
    /// Since the build began, waiting for another builder not counted.
    pub elapsed: Duration,
    /// How much longer, once that can be told.
    pub left: Option<Duration>,
}

impl std::fmt::Display for BuildProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {:.0} %", self.phase, self.fraction * 100.0)?;
        match self.left {
            Some(left) => write!(f, ", about {} s left", left.as_secs()),
            None => Ok(()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(
        "building a kernel needs {}; install with\n  {}",
        .0.iter().map(|t| t.0).collect::<Vec<_>>().join(", "), install_line(.0)
    )]
    Tools(Vec<MissingTool>),
    #[error(
        "there is no kernel source at {}; install it with\n  sudo apt-get install -y --no-install-recommends {package}\n\
         or name a Linux {series} source with --source DIR|TARBALL, or a ready user-mode kernel with --kernel-file PATH",
        .path.display(), package = .series.package(), series = .series
    )]
    NoSource { series: Series, path: PathBuf },
    #[error("with a ready kernel there is nothing to build: leave out --kernel-file")]
    Ready,
    #[error("where to keep kernels? Set QUELL_CACHE or HOME to a folder")]
    NoCache,
    #[error(
        "the kernel can't be built below {}: make takes no folder with spaces or colons in its name; set QUELL_CACHE to another",
        .path.display()
    )]
    Folder { path: PathBuf },
    #[error(
        "building a kernel needs {} MB below {}, and {} MB are free; set QUELL_CACHE to a folder on another disk",
        NEEDED_MB, .path.display(), .free_mb
    )]
    Space { path: PathBuf, free_mb: u64 },
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error("{step}: {error}\n{tail}\nthe whole log is {}", .log.display())]
    Step { step: &'static str, error: JobError, tail: String, log: PathBuf },
    #[error(transparent)]
    Edit(#[from] EditError),
    #[error(
        "this kernel source has no {}; take a source as Debian's packages linux-source-6.1 and linux-source-6.12 have it",
        .0.join(", ")
    )]
    MissingOptions(Vec<String>),
    #[error("the kernel was built but does not work: {0}")]
    NotReady(#[from] NotReady),
    #[error("waiting for another build of this kernel: {0}")]
    Wait(quell_sys::SysError),
    #[error("the build was stopped; nothing is left of it")]
    Cancelled,
}

/// A program or library that building a kernel needs, and the Debian package that has it.
pub type MissingTool = (&'static str, &'static str);

const PROGRAMS: [MissingTool; 10] = [
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("strip", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("perl", "perl"),
    ("tar", "tar"),
    ("xz", "xz-utils"),
];

fn missing() -> Vec<MissingTool> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut missing = missing_in(&folders);
    if !missing.iter().any(|t| t.0 == "gcc") && !compiles() {
        missing.push(("C library headers", "libc6-dev"));
    }
    missing
}

fn missing_in(folders: &[PathBuf]) -> Vec<MissingTool> {
    let there = |name: &str| folders.iter().any(|folder| is_program(&folder.join(name)));
    PROGRAMS.into_iter().filter(|tool| !there(tool.0)).collect()
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Whether a program that uses the C library's headers can be made.
fn compiles() -> bool {
    let mut command = Command::new("gcc");
    command.args(["-E", "-include", "sys/random.h", "-include", "linux/limits.h"]);
    command.args(["-x", "c", "/dev/null"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|s| s.success())
}

fn install_line(missing: &[MissingTool]) -> String {
    let mut packages: Vec<&str> = missing.iter().map(|t| t.1).collect();
    packages.sort_unstable();
    packages.dedup();
    format!("sudo apt-get install -y --no-install-recommends {}", packages.join(" "))
}

/// What a build takes at most: 700 MB of source, 300 MB of objects.
const NEEDED_MB: u64 = 1200;

/// Far above what a slow machine takes.
const LIMIT: Duration = Duration::from_secs(4 * 3600);

/// What all that is compiled for our configuration weighs ([`weight`]), as counted; others only make the estimate worse.
const ALL_WEIGHS: f64 = 3250.0;

/// Share of the whole that is unpacking and configuring, as measured on two cores: 10 of 170 seconds.
const BEFORE_COMPILING: f64 = 0.06;

/// Share of the compiling after which the rest of it can be told.
const TOO_EARLY: f64 = 0.03;

/// How many of the last lines an error shows.
const TAIL: usize = 20;

/// Options without which a guest can't be booted, or without which there is no lab.
const ESSENTIAL: [&str; 8] = [
    "CONFIG_UML_TIME_TRAVEL_SUPPORT",
    "CONFIG_HOSTFS",
    "CONFIG_NET_NS",
    "CONFIG_VETH",
    "CONFIG_IPV6",
    "CONFIG_NET_SCH_NETEM",
    "CONFIG_NET_SCH_HTB",
    "CONFIG_NET_SCH_FQ_CODEL",
];

/// Parts of the source that no user-mode kernel is made of. Their Kconfig files stay: every configuration reads them.
const LEFT_OUT: [&str; 12] = [
    "*/drivers/gpu/*.[ch]",
    "*/drivers/media/*.[ch]",
    "*/drivers/staging/*.[ch]",
    "*/drivers/infiniband/*.[ch]",
    "*/drivers/scsi/*.[ch]",
    "*/drivers/net/ethernet/*.[ch]",
    "*/drivers/net/wireless/*.[ch]",
    "*/sound/*.[ch]",
    "*/arch/[!ux]*/*.[chS]",
    "*/arch/*/*.dts*",
    "*/tools/perf/*",
    "*/tools/testing/*",
];

/// Makes the same text of version in every kernel that is built from the same source.
const SAME_NAME: [(&str, &str); 4] = [
    ("KBUILD_BUILD_TIMESTAMP", "Thu Jan  1 00:00:00 UTC 2026"),
    ("KBUILD_BUILD_USER", "quell"),
    ("KBUILD_BUILD_HOST", "lab"),
    ("KBUILD_BUILD_VERSION", "1"),
];

/// Builds the kernel that the options mean, or takes it from the cache if it is there and `force` is not set.
///
/// Takes some minutes. If somebody else is building the same kernel, it waits and takes that one.
pub fn build(
    options: &KernelOptions,
    progress: &mut dyn FnMut(&BuildProgress),
) -> Result<Kernel, BuildError> {
    if options.kernel_file.is_some() {
        return Err(BuildError::Ready);
    }
    let source = KernelSource::of(options);
    let no_source =
        || BuildError::NoSource { series: source.series(), path: source.path().to_path_buf() };
    let key = source.key().ok_or_else(no_source)?;
    let folder = cache::folder(options).ok_or(BuildError::NoCache)?;
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let target = folder.join(&key);
    // One that is damaged is no reason not to build.
    let there = || cache::kernel_in(&target).filter(|kernel| cache::whole(kernel).is_ok());
    if let (Some(kernel), false) = (there(), options.force) {
        return Ok(kernel);
    }
    let made = TrustedFolder::make(&folder, 0o755).map_err(std::io::Error::from);
    made.map_err(CacheError::when("making the folder", &folder))?;
    let (lock, waited) = lock(&folder.join(format!("{key}.lock")), options, progress)?;
    if let (Some(kernel), true) = (there(), waited || !options.force) {
        return Ok(kernel);
    }
    let missing = missing();
    if !missing.is_empty() {
        return Err(BuildError::Tools(missing));
    }
    let work = building(&folder, &key)?;
    let log_path = folder.join(format!("{key}.log"));
    let log = File::create(&log_path).map_err(CacheError::when("writing", &log_path))?;
    let (began, lately) = (Instant::now(), VecDeque::new());
    let mut builder = Builder { options, source, work, log, log_path, began, lately, progress };
    builder.unpack()?;
    edit::apply_all(&builder.tree(), builder.series().edits())?;
    let (on, refused) = builder.configure()?;
    builder.compile()?;
    let info = builder.finish(&key, on, refused)?;
    let kernel = builder.work.put(&info)?;
    builder.tell("ready", 1.0);
    drop(lock);
    Ok(kernel)
}

/// Waits until nobody else builds this kernel; says whether somebody did.
fn lock(
    path: &Path,
    options: &KernelOptions,
    progress: &mut dyn FnMut(&BuildProgress),
) -> Result<(Flock<File>, bool), BuildError> {
    let open = || File::options().write(true).create(true).truncate(false).open(path);
    let file = match Flock::lock(open().map_err(CacheError::when("opening", path))?, LOCK_NOW) {
        Ok(lock) => return Ok((lock, false)),
        Err((file, nix::Error::EWOULDBLOCK)) => file,
        Err((_, errno)) => return Err(CacheError::when("locking", path)(errno.into()).into()),
    };
    progress(&BuildProgress {
        phase: "wait for another build".into(),
        fraction: 0.0,
        elapsed: Duration::ZERO,
        left: None,
    });
    // flock(2) waits for nothing else, so that a thread does. If the build is stopped, it is left to wait, and a lock that it gets too
    // late goes with the channel.
    let (give, got) = mpsc::channel();
    let here = Arc::new(Bell::new().map_err(BuildError::Wait)?);
    let bell = Arc::clone(&here);
    std::thread::spawn(move || {
        let mut file = file;
        let lock = loop {
            match Flock::lock(file, FlockArg::LockExclusive) {
                Err((back, nix::Error::EINTR)) => file = back,
                lock => break lock.map_err(|(_, errno)| errno),
            }
        };
        let _ = give.send(lock);
        bell.ring();
    });
    let mut fds = vec![readable(&*here)];
    fds.extend(options.cancel.as_deref().map(readable));
    wait(&mut fds).map_err(BuildError::Wait)?;
    if fds.get(1).is_some_and(came) {
        return Err(BuildError::Cancelled);
    }
    let lock = got
        .recv()
        .map_err(|_| CacheError::when("locking", path)(std::io::Error::other("it was given up")))?;
    Ok((lock.map_err(|errno| CacheError::when("locking", path)(errno.into()))?, true))
}

const LOCK_NOW: FlockArg = FlockArg::LockExclusiveNonblock;

/// The folder to build in, if make can work there and there is space.
fn building(folder: &Path, key: &str) -> Result<Building, BuildError> {
    if folder.to_string_lossy().contains([' ', ':', '\t', '\n']) {
        return Err(BuildError::Folder { path: folder.into() });
    }
    let building = Building::new(folder, key)?;
    let space = nix::sys::statvfs::statvfs(&building.path)
        .map_err(|e| CacheError::when("looking for free space in", &building.path)(e.into()))?;
    let free_mb = space.blocks_available() * space.fragment_size() / 1_000_000;
    if free_mb < NEEDED_MB {
        return Err(BuildError::Space { path: building.path.clone(), free_mb });
    }
    Ok(building)
}

struct Builder<'a> {
    options: &'a KernelOptions,
    source: KernelSource,
    work: Building,
    log: File,
    log_path: PathBuf,
    began: Instant,
    /// When which share of the compiling was done, in the last minute.
    lately: VecDeque<(Instant, f64)>,
    progress: &'a mut dyn FnMut(&BuildProgress),
}

impl Builder<'_> {
    fn tree(&self) -> PathBuf {
        self.work.path.join("tree")
    }

    fn series(&self) -> Series {
        self.source.series()
    }

    fn tell(&mut self, phase: &str, fraction: f64) {
        let elapsed = self.began.elapsed();
        self.report(BuildProgress { phase: phase.into(), fraction, elapsed, left: None });
    }

    /// A share of the compiling is done. What is left is told by the last minute: what else the machine does comes and goes.
    fn tell_compiled(&mut self, done: f64) {
        let now = Instant::now();
        self.lately.push_back((now, done));
        while self.lately.len() > 2 && now - self.lately[1].0 > Duration::from_secs(60) {
            self.lately.pop_front();
        }
        let (then, done_then) = self.lately[0];
        let left = (done > TOO_EARLY && done > done_then)
            .then(|| (now - then).mul_f64((1.0 - done) / (done - done_then)));
        let fraction = BEFORE_COMPILING + (1.0 - BEFORE_COMPILING) * done;
        let elapsed = self.began.elapsed();
        self.report(BuildProgress { phase: "compile".into(), fraction, elapsed, left });
    }

    fn report(&mut self, progress: BuildProgress) {
        (self.progress)(&progress);
    }

    fn unpack(&mut self) -> Result<(), BuildError> {
        self.tell("unpack", 0.0);
        let tree = self.tree();
        std::fs::create_dir(&tree).map_err(CacheError::when("making the folder", &tree))?;
        let mut command;
        match &self.source {
            KernelSource::DebianTarball(path) => {
                command = Command::new("tar");
                command.arg("--extract").arg("--file").arg(path).arg("--directory").arg(&tree);
                command.args(["--strip-components=1", "--no-same-owner"]);
                command.args(LEFT_OUT.map(|pattern| format!("--exclude={pattern}")));
            }
            KernelSource::Tree(path) => {
                command = Command::new("cp");
                command.args(["--recursive", "--preserve=mode,timestamps,links", "--"]);
                command.arg(path.join(".")).arg(&tree);
            }
        }
        self.run("unpacking the kernel's source", command, false)?;
        if self.source.path().is_dir() {
            self.make("cleaning the copied source", &["mrproper"], false)?;
        }
        Ok(())
    }

    /// Gives the options that are on, and those that this source refused.
    fn configure(&mut self) -> Result<(Vec<String>, Vec<String>), BuildError> {
        self.tell("configure", BEFORE_COMPILING * 0.8);
        self.make("making the default configuration", &["defconfig"], false)?;
        let path = self.tree().join(".config");
        let base = std::fs::read_to_string(&path).map_err(CacheError::when("reading", &path))?;
        std::fs::write(&path, merge(&base, CONFIG)).map_err(CacheError::when("writing", &path))?;
        self.make("making our configuration", &["olddefconfig"], false)?;
        let got = std::fs::read_to_string(&path).map_err(CacheError::when("reading", &path))?;
        let refused = refused(&got, CONFIG);
        let is_essential = |option: &&String| ESSENTIAL.iter().any(|e| option == e);
        let lacking: Vec<String> = refused.iter().filter(is_essential).cloned().collect();
        if !lacking.is_empty() {
            return Err(BuildError::MissingOptions(lacking));
        }
        let on = got.lines().filter(|l| l.starts_with("CONFIG_")).map(str::to_string).collect();
        Ok((on, refused))
    }

    fn compile(&mut self) -> Result<(), BuildError> {
        self.make("compiling the kernel", &["linux"], true)
    }

    fn finish(
        &mut self,
        key: &str,
        options: Vec<String>,
        refused: Vec<String>,
    ) -> Result<Info, BuildError> {
        let path = self.work.path.join("out/linux");
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(&path).arg(self.tree().join("linux"));
        self.run("stripping the kernel", strip, false)?;
        let Ready { version, virtual_time, seeded } = ready::inspect(&path)?;
        let kernel = std::fs::read(&path).map_err(CacheError::when("reading", &path))?;
        let mut compiler = String::new();
        let mut gcc = Command::new("gcc");
        gcc.arg("--version").env("LC_ALL", "C");
        job::run(gcc, LIMIT, None, &mut |line| {
            if compiler.is_empty() {
                compiler = line.into();
            }
        })
        .map_err(|error| self.failed("asking for the compiler's version", error, ""))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let built = Built {
            key: key.into(),
            source: self.source.path().to_path_buf(),
            compiler,
            at_unix_s: now.as_secs(),
            took_s: self.began.elapsed().as_secs_f64(),
            edits: self.series().edits().iter().map(|(name, _)| name.to_string()).collect(),
            refused,
            options,
        };
        let (size, crc32) = (kernel.len() as u64, Some(crc32fast::hash(&kernel)));
        let moved = std::fs::rename(&self.log_path, self.work.out().join("build.log"));
        moved.map_err(CacheError::when("moving", &self.log_path))?;
        Ok(Info { path, version, size, crc32, virtual_time, seeded, built: Some(built) })
    }

    fn make(
        &mut self,
        step: &'static str,
        goals: &[&str],
        compiles: bool,
    ) -> Result<(), BuildError> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let mut command = Command::new("make");
        command.arg("ARCH=um").arg(format!("-j{}", self.options.jobs.unwrap_or(cpus).max(1)));
        command.args(goals).current_dir(self.tree());
        self.run(step, command, compiles)
    }

    fn run(
        &mut self,
        step: &'static str,
        mut command: Command,
        compiles: bool,
    ) -> Result<(), BuildError> {
        // What the environment says of other builds (ARCH, MAKEFLAGS, KCONFIG_…) shall not steer this one.
        command.env_clear().env("LC_ALL", "C").envs(SAME_NAME);
        command
            .envs(["PATH", "HOME", "TMPDIR"].map(|k| (k, std::env::var_os(k).unwrap_or_default())));
        let mut tail = VecDeque::new();
        let mut weighs = 0.0;
        let mut log = self.log.try_clone().map_err(CacheError::when("writing", &self.log_path))?;
        let cancel = self.options.cancel.clone();
        let mut written = Ok(());
        let result = job::run(command, LIMIT, cancel.as_deref(), &mut |line| {
            if written.is_ok() {
                written = writeln!(log, "{line}");
            }
            tail.push_back(line.to_string());
            if tail.len() > TAIL {
                tail.pop_front();
            }
            if compiles && let weight @ 1.. = weight(line) {
                weighs += f64::from(weight);
                self.tell_compiled(f64::min(weighs / ALL_WEIGHS, 0.99));
            }
        });
        match result {
            Ok(()) => Ok(written.map_err(CacheError::when("writing", &self.log_path))?),
            Err(JobError::Cancelled) => {
                // Nobody needs the log of a build that was stopped.
                let _ = std::fs::remove_file(&self.log_path);
                Err(BuildError::Cancelled)
            }
            Err(error) => Err(self.failed(step, error, tail.make_contiguous().join("\n"))),
        }
    }

    fn failed(&self, step: &'static str, error: JobError, tail: impl Into<String>) -> BuildError {
        BuildError::Step { step, error, tail: tail.into(), log: self.log_path.clone() }
    }
}

/// How long what a line of make's compiles (`  CC      init/main.o`) takes beside others, in tenths of a second of a usual CPU: the
/// network's files read the most headers.
fn weight(line: &str) -> u32 {
    match line.strip_prefix("  CC ").map_or("", str::trim_start) {
        "" => 0,
        file if ["net/", "drivers/net/", "kernel/bpf/"].iter().any(|f| file.starts_with(f)) => 5,
        file if file.starts_with("arch/") || file.starts_with("scripts/") => 1,
        _ => 3,
    }
}

/// The option that a line of a configuration is about: `CONFIG_A=y` or `# CONFIG_A is not set`.
fn option_of(line: &str) -> Option<(&str, bool)> {
    if let Some(rest) = line.strip_prefix("# ") {
        let name = rest.strip_suffix(" is not set")?;
        return name.starts_with("CONFIG_").then_some((name, false));
    }
    let (name, _) = line.split_once('=')?;
    name.starts_with("CONFIG_").then_some((name, true))
}

/// A configuration with ours in place of what it says of the same options.
fn merge(base: &str, ours: &str) -> String {
    let named: Vec<&str> = ours.lines().filter_map(option_of).map(|(name, _)| name).collect();
    let kept = base.lines().filter(|l| option_of(l).is_none_or(|(name, _)| !named.contains(&name)));
    let mut text = kept.collect::<Vec<_>>().join("\n");
    text.push('\n');
    text.push_str(ours);
    text
}

/// Options that are on in ours and not in what came of it.
fn refused(got: &str, ours: &str) -> Vec<String> {
    let on = |text: &'_ str| -> Vec<String> {
        let lines = text.lines().filter_map(option_of);
        lines.filter(|(_, on)| *on).map(|(name, _)| name.to_string()).collect()
    };
    let got = on(got);
    on(ours).into_iter().filter(|name| !got.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_an_empty_machine_everything_is_missing_and_named_once() {
        let missing = missing_in(&[PathBuf::from("/nowhere")]);
        assert_eq!(missing.len(), PROGRAMS.len());
        assert_eq!(
            install_line(&missing),
            "sudo apt-get install -y --no-install-recommends bc binutils bison flex gcc make perl tar xz-utils"
        );
    }

    #[test]
    fn our_options_replace_the_defaults() {
        let base = "# CONFIG_A is not set\nCONFIG_B=y\nCONFIG_C=y\n";
        let ours = "# why\nCONFIG_A=y\n# CONFIG_B is not set\n";
        let merged = merge(base, ours);
        assert_eq!(merged, "CONFIG_C=y\n# why\nCONFIG_A=y\n# CONFIG_B is not set\n");
        assert_eq!(refused("CONFIG_C=y\n# CONFIG_A is not set\n", ours), ["CONFIG_A"]);
    }

    #[test]
    fn the_configuration_names_each_option_once() {
        let mut names: Vec<&str> = CONFIG.lines().filter_map(option_of).map(|(n, _)| n).collect();
        names.sort_unstable();
        for pair in names.windows(2) {
            assert_ne!(pair[0], pair[1]);
        }
        for essential in ESSENTIAL {
            assert!(names.contains(&essential), "{essential}");
        }
    }

    #[test]
    fn what_is_left_is_told_by_what_is_compiled_and_not_by_how_many_lines_make_writes() {
        let lines =
            ["  CC      net/ipv4/tcp.o", "  CC      mm/mmap.o", "  CC      arch/um/kernel/irq.o"];
        assert_eq!(lines.map(weight), [5, 3, 1]);
        let others = ["  HOSTCC  scripts/basic/fixdep", "  AR      net/built-in.a", "make[1]: x"];
        assert_eq!(others.map(weight), [0; 3]);
    }

    #[test]
    fn a_source_that_is_not_there_is_named_with_the_ways_out() {
        let cache = std::env::temp_dir().join(format!("quell-nosource-{}", std::process::id()));
        let options = KernelOptions {
            source: Some("/no/such/linux-6.1.tar.xz".into()),
            cache: Some(cache),
            ..KernelOptions::default()
        };
        let error = build(&options, &mut |_| {}).unwrap_err().to_string();
        for part in ["/no/such/linux-6.1.tar.xz", "linux-source-6.1", "--source", "--kernel-file"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_folder_in_which_make_cannot_work_is_refused_before_anything_is_unpacked() {
        let cache = std::env::temp_dir().join(format!("quell with space {}", std::process::id()));
        let source = std::env::temp_dir().join(format!("quell-src-{}.tar", std::process::id()));
        std::fs::write(&source, "").unwrap();
        let options = KernelOptions {
            source: Some(source.clone()),
            cache: Some(cache.clone()),
            ..KernelOptions::default()
        };
        assert!(matches!(build(&options, &mut |_| {}), Err(BuildError::Folder { .. })));
        std::fs::remove_file(&source).unwrap();
        std::fs::remove_dir_all(&cache).unwrap();
    }

    #[test]
    fn a_source_that_is_no_source_leaves_a_log_and_no_kernel() {
        let cache = std::env::temp_dir().join(format!("quell-nokernel-{}", std::process::id()));
        std::fs::create_dir_all(&cache).unwrap();
        let source = cache.join("linux-6.1.tar");
        std::fs::write(&source, "this is no tarball").unwrap();
        let options = KernelOptions {
            source: Some(source),
            cache: Some(cache.clone()),
            ..KernelOptions::default()
        };
        match build(&options, &mut |_| {}) {
            Err(BuildError::Step { tail, log, .. }) => {
                assert!(!tail.is_empty() && log.is_file(), "{tail}");
            }
            other => panic!("{other:?}"),
        }
        let left: Vec<_> = std::fs::read_dir(cache.join("kernel")).unwrap().flatten().collect();
        assert!(left.iter().all(|e| e.path().is_file()), "{left:?}");
        assert!(matches!(crate::find(&options), Err(crate::NotFound::NotBuilt { .. })));
        std::fs::remove_dir_all(&cache).unwrap();
    }
}
