//! The browser as a process: found, started without a window and with a folder of its own, ended with all that it started.
//!
//! ```text
//!   quell ── pipe ──► 3   chromium --headless --remote-debugging-pipe --user-data-dir=…
//!         ◄── pipe ── 4        └─ its own processes, all in one process group
//!         ◄── pipe ── stderr: its last words
//! ```

use crate::PageError;
use crate::devtools::{DevTools, Until};
use crate::limits::LIMITS;
use crate::profile::Profile;
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{AccessFlags, Pid, access, pipe2};
use quell_model::page::HttpVersion;
use quell_sys::SysError;
use quell_sys::child::ends_with_us;
use quell_sys::clock::monotonic_ns;
use quell_sys::pidfd;
use quell_sys::trusted::NOBODY;
use quell_sys::wait::Bell;
use quell_units::Span;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Said where there is none.
const INSTALL: &str = "there is no Chromium here: install Debian's package `chromium`, or name a browser with its path";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BrowserOptions {
    pub program: Option<PathBuf>,
    /// Whether scripts run without a compiler (`--js-flags=--jitless`).
    pub jitless: bool,
    /// Whether the compiler does its work at once, and not beside the script: what it can then shows also where other CPUs are busy.
    pub compiles_at_once: bool,
    /// Names that lead to addresses of ours, as `*.page.test` to `10.0.3.2`.
    pub names: BTreeMap<String, String>,
    /// The SHA-256 of the public keys of certificates that are taken though nobody vouches for them, in base64.
    pub pinned: Vec<String>,
    /// Whether any certificate is taken, whoever made it.
    pub insecure: bool,
    /// The version of HTTP by which pages are to come; what browser and server agree on where absent.
    pub http: Option<HttpVersion>,
    /// The origins, as `example.org:443`, that are asked over QUIC and in no other way, where that version is the third.
    pub over_quic: Vec<String>,
    /// How long it may take to start, and then to answer what asks nothing of the network; a minute where absent.
    pub patience: Option<Span>,
    /// Whether time is virtual: the browser then takes all randomness from the kernel, and runs as few processes as it can.
    pub is_virtual: bool,
}

/// Finds the program. One that is named has to be there; else the first that the PATH has.
pub fn find(named: Option<&Path>) -> Result<PathBuf, PageError> {
    let runs = |path: &Path| access(path, AccessFlags::X_OK).is_ok() && path.is_file();
    if let Some(path) = named.filter(|p| p.components().count() > 1) {
        return match runs(path) {
            true => Ok(path.to_path_buf()),
            false => Err(PageError::NoBrowser(format!(
                "there is no browser at {}, or it may not be run; Debian's package is `chromium`",
                path.display()
            ))),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let in_path = |name: &Path| folders.iter().map(|f| f.join(name)).find(|p| runs(p));
    match named {
        Some(name) => in_path(name).ok_or_else(|| {
            PageError::NoBrowser(format!(
                "there is no program `{}` in the PATH; Debian's package is `chromium`",
                name.display()
            ))
        }),
        None => NAMES
            .iter()
            .find_map(|name| in_path(Path::new(name)))
            .ok_or_else(|| PageError::NoBrowser(INSTALL.into())),
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context(pub(crate) String);

/// A browser that runs. It ends with this value, and all that it started with it.
///
/// Nothing of it is kept, so that it is killed and not asked: what a page makes of it can't put that off.
#[derive(Debug)]
pub struct Browser {
    pub devtools: DevTools,
    /// What it says that it is, as `Chrome/156.0.8078.79`.
    pub version: String,
    pub(crate) patience_ns: u64,
    pub(crate) options: BrowserOptions,
    pub(crate) open: Option<Context>,
    /// Whether it failed, or does not get done with a page: another takes its place before the next.
    pub(crate) is_spent: bool,
    /// Ends before its folder goes.
    child: ProcessGroup,
    words: File,
    _profile: Profile,
}

impl Browser {
    pub fn start(options: &BrowserOptions, stop: &Bell) -> Result<Self, PageError> {
        let program = find(options.program.as_deref())?;
        let failed = |why: String| PageError::Start { program: program.clone(), why };
        let profile = Profile::new(options.is_virtual).map_err(failed)?;
        let pipe = || pipe2(OFlag::O_CLOEXEC).map_err(|e| failed(format!("making a pipe: {e}")));
        let ((theirs_in, to), (from, theirs_out)) = (pipe()?, pipe()?);
        // A file and no pipe: nobody reads it while it grows.
        let words = tempfile::tempfile_in(profile.path())
            .map_err(|e| failed(format!("making a file for its words: {e}")))?;
        let theirs_err = words.try_clone().map_err(|e| failed(e.to_string()))?;
        let mut command = Command::new(&program);
        command
            .args(arguments(options, profile.path()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::from(theirs_err))
            .process_group(0);
        // What a browser writes beside its profile goes there too.
        for name in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR"] {
            command.env(name, profile.path());
        }
        command.env_remove("DBUS_SESSION_BUS_ADDRESS");
        // One that is named by its path may lie where nobody else may look.
        let is_dropped = options.program.is_none() && !options.is_virtual && may_drop_root();
        if is_dropped {
            std::os::unix::fs::chown(profile.path(), Some(NOBODY), Some(NOBODY))
                .map_err(|e| failed(format!("giving its folder to nobody: {e}")))?;
            // With them go the groups of root (setgroups(2)).
            command.uid(NOBODY).gid(NOBODY);
        }
        if options.is_virtual {
            command.env(NO_RDRAND.0, NO_RDRAND.1);
        }
        ends_with_us(&mut command, Signal::SIGKILL);
        let (reads, writes) = (theirs_in.as_raw_fd(), theirs_out.as_raw_fd());
        // SAFETY: between fork and exec only system calls are made, and nothing is allocated.
        unsafe {
            command.pre_exec(move || {
                if is_dropped {
                    nix::sys::prctl::set_no_new_privs()?;
                }
                as_three_and_four(reads, writes)
            });
        }
        let child = command.spawn().map_err(|e| failed(e.to_string()))?;
        // Its ends are the browser's alone: when it ends, so do the pipes.
        drop((theirs_in, theirs_out, command));
        let mut child = ProcessGroup(Some(child));
        let ended = pidfd::open(child.pid())
            .map_err(|e| SysError::io("watch a browser (pidfd_open needs Linux 5.3)", &e))?;
        let mut devtools = DevTools::new(to, from, ended)?;
        let patience_ns = options.patience.unwrap_or(LIMITS.patience).nanos();
        let deadline_ns = monotonic_ns().saturating_add(patience_ns);
        let until = Until { deadline_ns, stop };
        let version = match devtools.call("", "Browser.getVersion", json!({}), until) {
            Ok(answer) => answer,
            Err(PageError::Silent { .. }) if stop.rings() => return Err(PageError::Stopped),
            Err(PageError::Gone(_)) => {
                child.kill();
                return Err(failed(format!("it ended at once{}", last_words(&words))));
            }
            Err(error) => return Err(error),
        };
        let version =
            version.get("product").and_then(Value::as_str).unwrap_or("unknown").to_owned();
        Ok(Self {
            devtools,
            version,
            patience_ns,
            options: options.clone(),
            open: None,
            is_spent: false,
            child,
            words,
            _profile: profile,
        })
    }

    /// Ends it, and starts another in its place.
    pub(crate) fn renew(&mut self, stop: &Bell) -> Result<(), PageError> {
        self.child.kill();
        *self = Self::start(&self.options, stop)?;
        Ok(())
    }

    /// What it said last on its standard error, as the end of a sentence.
    pub fn explain(&self, error: PageError) -> PageError {
        match error {
            PageError::Gone(_) => PageError::Gone(last_words(&self.words)),
            other => other,
        }
    }
}

/// The browser's process with all that it started: they are killed with it.
#[derive(Debug)]
struct ProcessGroup(Option<Child>);

impl ProcessGroup {
    fn pid(&self) -> u32 {
        self.0.as_ref().map_or(0, Child::id)
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It was not waited for yet, so that the group's number can't be another's.
            let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
            let _ = child.wait();
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The last lines of what it wrote, as the end of a sentence.
fn last_words(words: &File) -> String {
    let length = words.metadata().map_or(0, |m| m.len());
    let mut text = vec![0; LIMITS.last_words];
    let got =
        words.read_at(&mut text, length.saturating_sub(LIMITS.last_words as u64)).unwrap_or(0);
    let text = String::from_utf8_lossy(&text[..got]);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(3)..].join(" / ");
    if last.is_empty() { last } else { format!("; it said: {last}") }
}

/// Has the browser find its ends as the descriptors 3 and 4, whatever numbers they have now.
fn as_three_and_four(reads: RawFd, writes: RawFd) -> std::io::Result<()> {
    // Out of the way first: one may be where the other is to go.
    let high = |fd: RawFd| {
        // SAFETY: takes numbers.
        match unsafe { nix::libc::fcntl(fd, nix::libc::F_DUPFD_CLOEXEC, 10) } {
            -1 => Err(std::io::Error::last_os_error()),
            high => Ok(high),
        }
    };
    let put = |fd: RawFd, at: RawFd| {
        // SAFETY: takes numbers. What the standard library has open for itself is above: the pipes took the lowest free numbers.
        match unsafe { nix::libc::dup2(fd, at) } {
            -1 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        }
    };
    let (reads, writes) = (high(reads)?, high(writes)?);
    put(reads, 3)?;
    put(writes, 4)
}

/// Whether we are root of the machine, and not of a user namespace that may know no other user: pages of others are not opened by root.
fn may_drop_root() -> bool {
    nix::unistd::geteuid().is_root() && !quell_sys::trusted::in_user_namespace()
}

/// Whether the browser can't have its sandbox: it has none for root, and none in a guest, where everybody is root.
pub fn is_without_sandbox() -> bool {
    nix::unistd::geteuid().is_root()
}

fn arguments(options: &BrowserOptions, profile: &Path) -> Vec<OsString> {
    let mut folder = OsString::from("--user-data-dir=");
    folder.push(profile);
    let mut all: Vec<OsString> = vec!["--remote-debugging-pipe".into(), folder];
    all.extend(QUIET.iter().map(OsString::from));
    match options.is_virtual {
        true => {
            all.extend(FEW_PROCESSES.map(OsString::from));
            all.push(format!("--disable-features={FEATURES_OFF},{NO_SPARE}").into());
        }
        false => all.push(format!("--disable-features={FEATURES_OFF}").into()),
    }
    if is_without_sandbox() {
        all.push("--no-sandbox".into());
    }
    if options.jitless {
        all.push("--js-flags=--jitless".into());
    } else if options.compiles_at_once {
        all.push("--js-flags=--no-concurrent-recompilation".into());
    }
    if !options.names.is_empty() {
        let rules = options.names.iter().map(|(name, to)| format!("MAP {name} {to}"));
        let rules = rules.collect::<Vec<_>>().join(",");
        all.push(format!("--host-resolver-rules={rules}").into());
    }
    if !options.pinned.is_empty() {
        let pins = options.pinned.join(",");
        all.push(format!("--ignore-certificate-errors-spki-list={pins}").into());
    }
    match options.http {
        None => {}
        Some(HttpVersion::One) => all.extend(["--disable-http2", "--disable-quic"].map(Into::into)),
        Some(HttpVersion::Two) => all.push("--disable-quic".into()),
        Some(HttpVersion::Three) => {
            let origins = options.over_quic.join(",");
            all.extend([
                "--enable-quic".into(),
                format!("--origin-to-force-quic-on={origins}").into(),
            ]);
        }
    }
    if options.insecure {
        all.push("--ignore-certificate-errors".into());
    }
    all.push("about:blank".into());
    all
}

/// No window, nothing of its own on the network, nothing remembered.
const QUIET: &[&str] = &[
    "--headless",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-component-extensions-with-background-pages",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-gpu",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--metrics-recording-only",
    "--mute-audio",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-service-autorun",
    "--password-store=basic",
    "--use-mock-keychain",
    "--window-size=1280,800",
];

/// What would ask the network for things of the browser's own.
const FEATURES_OFF: &str = "OptimizationHints,MediaRouter,Translate,InterestFeedContentSuggestions,DialMediaRouteProvider,\
     CertificateTransparencyComponentUpdater,AutofillServerCommunication,NetworkTimeServiceQuerying";

/// In virtual time processes protect nobody from the one page that is loaded, and each costs a guest's kernel much: as few as go.
const FEW_PROCESSES: [&str; 4] = [
    "--in-process-gpu",
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
    "--enable-features=NetworkServiceInProcess2",
];

/// Beside [`FEATURES_OFF`], there: a process that waits for the next page.
const NO_SPARE: &str = "SpareRendererForSitePerProcess";

/// Has BoringSSL take no random numbers from the processor (bit 62 of its first word of features, RDRAND), which no seed reaches.
const NO_RDRAND: (&str, &str) = ("OPENSSL_ia32cap", "~0x4000000000000000");
