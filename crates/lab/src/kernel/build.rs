//! Building a kernel: unpack, edit, configure, compile, strip, try, and put it in place in one step.

use super::job::{self, JobError};
use super::place::{self, CONFIG, KernelSource};
use super::sum::Sum;
use super::tools::{self, MissingTool};
use super::{
    BuildProgress, Built, EditError, Info, Kernel, KernelOptions, NotReady, Series, edit, ready,
};
use nix::fcntl::{Flock, FlockArg};
use quell_sys::wait::{Bell, came, readable, wait};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Why no kernel was built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Programs or libraries are missing.
    #[error(
        "building a kernel needs {}; install with\n  {}",
        .0.iter().map(|t| t.name).collect::<Vec<_>>().join(", "), tools::install_line(.0)
    )]
    Tools(Vec<MissingTool>),
    /// There is no source.
    #[error(
        "there is no kernel source at {}; install it with\n  sudo apt-get install -y --no-install-recommends {package}\n\
         or name a Linux {series} source with --source DIR|TARBALL, or a ready user-mode kernel with --kernel-file PATH",
        .path.display(), package = .series.package(), series = .series
    )]
    NoSource {
        /// Of which series.
        series: Series,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The named kernel file excludes a build.
    #[error("with a ready kernel there is nothing to build: leave out --kernel-file")]
    Ready,
    /// Neither a cache nor a home folder is known.
    #[error("where to keep kernels? Set QUELL_CACHE or HOME to a folder")]
    NoCache,
    /// The kernel's makefiles can't work in this folder.
    #[error(
        "the kernel can't be built below {}: make takes no folder with spaces or colons in its name; set QUELL_CACHE to another",
        .path.display()
    )]
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// There is too little space.
    #[error(
        "building a kernel needs {} MB below {}, and {} MB are free; set QUELL_CACHE to a folder on another disk",
        NEEDED_MB, .path.display(), .free_mb
    )]
    Space {
        /// The folder.
        path: PathBuf,
        /// What is free there.
        free_mb: u64,
    },
    /// The cache can't be written.
    #[error("{what} {}: {error}", .path.display())]
    Cache {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system answered.
        error: std::io::Error,
    },
    /// A step failed.
    #[error("{step}: {error}\n{tail}\nthe whole log is {}", .log.display())]
    Step {
        /// What was being done.
        step: &'static str,
        /// How it ended.
        error: JobError,
        /// The last lines of its output.
        tail: String,
        /// The file with all of its output.
        log: PathBuf,
    },
    /// The source is not one that we can edit.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// The source lacks options without which a lab can't be.
    #[error(
        "this kernel source has no {}; take a source as Debian's packages linux-source-6.1 and linux-source-6.12 have it",
        .0.join(", ")
    )]
    MissingOptions(Vec<String>),
    /// What was built does not work.
    #[error("the kernel was built but does not work: {0}")]
    NotReady(#[from] NotReady),
    /// Waiting for another build failed.
    #[error("waiting for another build of this kernel: {0}")]
    Wait(quell_sys::SysError),
    /// Somebody asked to stop.
    #[error("the build was stopped; nothing is left of it")]
    Cancelled,
}

/// What a build takes at most: 700 MB of source, 300 MB of objects.
const NEEDED_MB: u64 = 1200;

/// Far above what a slow machine takes.
const LIMIT: Duration = Duration::from_secs(4 * 3600);

/// Lines of progress that make writes for our configuration, as counted; others only make the estimate worse.
const EXPECTED_STEPS: f64 = 1430.0;

/// Share of the whole that is unpacking and configuring, as measured on two cores: 10 of 170 seconds.
const BEFORE_COMPILING: f64 = 0.06;

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
    let folder = place::folder(options).ok_or(BuildError::NoCache)?;
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let target = folder.join(&key);
    // One that is damaged is no reason not to build.
    let there = || place::kernel_in(&target).filter(|kernel| super::whole(kernel).is_ok());
    if let (Some(kernel), false) = (there(), options.force) {
        return Ok(kernel);
    }
    std::fs::create_dir_all(&folder).map_err(cache("making the folder", &folder))?;
    let (lock, waited) = lock(&folder.join(format!("{key}.lock")), options, progress)?;
    if let (Some(kernel), true) = (there(), waited || !options.force) {
        return Ok(kernel);
    }
    let missing = tools::missing();
    if !missing.is_empty() {
        return Err(BuildError::Tools(missing));
    }
    // Whoever held the lock before us and was killed left it.
    let work = Work::new(folder.join(format!("{key}.building")))?;
    let log_path = folder.join(format!("{key}.log"));
    let log = File::create(&log_path).map_err(cache("writing", &log_path))?;
    let began = Instant::now();
    let mut builder = Builder { options, source, work, log, log_path, began, progress };
    builder.unpack()?;
    edit::apply_all(&builder.tree(), builder.series().edits())?;
    let (on, refused) = builder.configure()?;
    builder.compile()?;
    let info = builder.finish(&key, on, refused)?;
    builder.put(&target, &info)?;
    drop(lock);
    place::kernel_in(&target).ok_or_else(|| {
        let error = std::io::Error::other("somebody removed it at this moment");
        cache("finding", &target)(error)
    })
}

fn cache(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> BuildError {
    let path = path.to_path_buf();
    move |error| BuildError::Cache { what, path, error }
}

/// Waits until nobody else builds this kernel; says whether somebody did.
fn lock(
    path: &Path,
    options: &KernelOptions,
    progress: &mut dyn FnMut(&BuildProgress),
) -> Result<(Flock<File>, bool), BuildError> {
    let open = || File::options().write(true).create(true).truncate(false).open(path);
    let file = match Flock::lock(open().map_err(cache("opening", path))?, LOCK_NOW) {
        Ok(lock) => return Ok((lock, false)),
        Err((file, nix::Error::EWOULDBLOCK)) => file,
        Err((_, errno)) => return Err(cache("locking", path)(errno.into())),
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
    let lock =
        got.recv().map_err(|_| cache("locking", path)(std::io::Error::other("it was given up")))?;
    Ok((lock.map_err(|errno| cache("locking", path)(errno.into()))?, true))
}

const LOCK_NOW: FlockArg = FlockArg::LockExclusiveNonblock;

/// The folder in which a kernel is built; gone when it is dropped.
struct Work(PathBuf);

impl Work {
    fn new(path: PathBuf) -> Result<Work, BuildError> {
        if path.to_string_lossy().contains([' ', ':', '\t', '\n']) {
            return Err(BuildError::Folder { path });
        }
        match std::fs::remove_dir_all(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(cache("removing the half-built kernel in", &path)(e));
            }
            _ => {}
        }
        std::fs::create_dir_all(path.join("out")).map_err(cache("making the folder", &path))?;
        let work = Work(path);
        let space = nix::sys::statvfs::statvfs(&work.0)
            .map_err(|e| cache("looking for free space in", &work.0)(e.into()))?;
        let free_mb = space.blocks_available() * space.fragment_size() / 1_000_000;
        if free_mb < NEEDED_MB {
            return Err(BuildError::Space { path: work.0.clone(), free_mb });
        }
        Ok(work)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // The next build removes what is left.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Builder<'a> {
    options: &'a KernelOptions,
    source: KernelSource,
    work: Work,
    log: File,
    log_path: PathBuf,
    began: Instant,
    progress: &'a mut dyn FnMut(&BuildProgress),
}

impl Builder<'_> {
    fn tree(&self) -> PathBuf {
        self.work.0.join("tree")
    }

    fn series(&self) -> Series {
        self.source.series()
    }

    fn tell(&mut self, phase: &str, fraction: f64) {
        let elapsed = self.began.elapsed();
        // Before something was compiled there is nothing to reckon with.
        let left = (fraction > BEFORE_COMPILING + 0.03)
            .then(|| elapsed.mul_f64((1.0 - fraction) / fraction));
        (self.progress)(&BuildProgress { phase: phase.into(), fraction, elapsed, left });
    }

    fn unpack(&mut self) -> Result<(), BuildError> {
        self.tell("unpack", 0.0);
        let tree = self.tree();
        std::fs::create_dir(&tree).map_err(cache("making the folder", &tree))?;
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
        self.run("unpacking the kernel's source", command, None)?;
        if self.source.path().is_dir() {
            self.make("cleaning the copied source", &["mrproper"], None)?;
        }
        Ok(())
    }

    /// Gives the options that are on, and those that this source refused.
    fn configure(&mut self) -> Result<(Vec<String>, Vec<String>), BuildError> {
        self.tell("configure", BEFORE_COMPILING * 0.8);
        self.make("making the default configuration", &["defconfig"], None)?;
        let path = self.tree().join(".config");
        let base = std::fs::read_to_string(&path).map_err(cache("reading", &path))?;
        std::fs::write(&path, merge(&base, CONFIG)).map_err(cache("writing", &path))?;
        self.make("making our configuration", &["olddefconfig"], None)?;
        let got = std::fs::read_to_string(&path).map_err(cache("reading", &path))?;
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
        self.make("compiling the kernel", &["linux"], Some("compile"))
    }

    fn finish(
        &mut self,
        key: &str,
        options: Vec<String>,
        refused: Vec<String>,
    ) -> Result<Info, BuildError> {
        let path = self.work.0.join("out/linux");
        let mut strip = Command::new("strip");
        strip.arg("-o").arg(&path).arg(self.tree().join("linux"));
        self.run("stripping the kernel", strip, None)?;
        let ready = ready::inspect(&path)?;
        let sum = Sum::of(&path).map_err(cache("reading", &path))?;
        let mut compiler = String::new();
        let mut version = Command::new("gcc");
        version.arg("--version").env("LC_ALL", "C");
        job::run(version, LIMIT, None, &mut |line| {
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
        Ok(Info {
            path,
            version: ready.version,
            size: sum.size,
            crc32: Some(sum.crc32),
            virtual_time: ready.virtual_time,
            seeded: ready.seeded,
            built: Some(built),
        })
    }

    /// Moves the whole kernel to where it is looked for, in one step.
    fn put(&mut self, target: &Path, info: &Info) -> Result<(), BuildError> {
        let out = self.work.0.join("out");
        let path = out.join("info.json");
        let info = Info { path: target.join("linux"), ..info.clone() };
        let text = serde_json::to_vec_pretty(&info).map_err(std::io::Error::other);
        let write = text.and_then(|t| {
            let mut file = File::create(&path)?;
            file.write_all(&t)?;
            file.sync_all()
        });
        write.map_err(cache("writing", &path))?;
        let kernel = out.join("linux");
        File::open(&kernel).and_then(|f| f.sync_all()).map_err(cache("writing", &kernel))?;
        std::fs::rename(&self.log_path, out.join("build.log"))
            .map_err(cache("moving", &self.log_path))?;
        // An earlier kernel of this key: rename() replaces only an empty folder.
        let earlier = self.work.0.join("earlier");
        match std::fs::rename(target, &earlier) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(cache("replacing", target)(e));
            }
            _ => {}
        }
        std::fs::rename(&out, target).map_err(cache("putting in place", target))?;
        self.tell("ready", 1.0);
        Ok(())
    }

    fn make(
        &mut self,
        step: &'static str,
        goals: &[&str],
        phase: Option<&str>,
    ) -> Result<(), BuildError> {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let mut command = Command::new("make");
        command.arg("ARCH=um").arg(format!("-j{}", self.options.jobs.unwrap_or(cpus).max(1)));
        command.args(goals).current_dir(self.tree());
        self.run(step, command, phase)
    }

    fn run(
        &mut self,
        step: &'static str,
        mut command: Command,
        phase: Option<&str>,
    ) -> Result<(), BuildError> {
        // What the environment says of other builds (ARCH, MAKEFLAGS, KCONFIG_…) shall not steer this one.
        command.env_clear().env("LC_ALL", "C").envs(SAME_NAME);
        command
            .envs(["PATH", "HOME", "TMPDIR"].map(|k| (k, std::env::var_os(k).unwrap_or_default())));
        let mut tail = VecDeque::new();
        let mut steps = 0.0;
        let mut log = self.log.try_clone().map_err(cache("writing", &self.log_path))?;
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
            if let (Some(phase), true) = (phase, is_step(line)) {
                steps += 1.0;
                let done = f64::min(steps / EXPECTED_STEPS, 0.99);
                self.tell(phase, BEFORE_COMPILING + (1.0 - BEFORE_COMPILING) * done);
            }
        });
        match result {
            Ok(()) => written.map_err(cache("writing", &self.log_path)),
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

/// Whether a line of make's says that it makes something: `  CC      init/main.o`.
fn is_step(line: &str) -> bool {
    line.strip_prefix("  ").is_some_and(|rest| {
        let word = rest.split(' ').next().unwrap_or("");
        !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    })
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
    fn steps_of_make_are_told_from_other_output() {
        assert!(is_step("  CC      init/main.o"));
        assert!(is_step("  HOSTCC  scripts/basic/fixdep"));
        assert!(!is_step("make[1]: Entering directory"));
        assert!(!is_step("  warning: something"));
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
        assert!(matches!(
            super::super::find(&options),
            Err(super::super::NotFound::NotBuilt { .. })
        ));
        std::fs::remove_dir_all(&cache).unwrap();
    }
}
