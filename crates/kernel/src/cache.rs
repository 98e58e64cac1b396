//! Where kernels are kept, and under which key.
//!
//! ```text
//! $QUELL_CACHE | $XDG_CACHE_HOME/quell | ~/.cache/quell
//!   kernel/<key>/linux, info.json, build.log    whole kernels
//!   kernel/<key>.lock                           held by whoever builds it
//!   kernel/<key>.building/                      only while somebody does
//! ```
//!
//! The key names the source, and our configuration and edits: a change in any of them is another kernel.

use crate::ready::{self, NotReady, Ready};
use crate::series::Series;
use quell_sys::trusted::{TrustError, TrustedFolder};
use quell_sys::wait::Bell;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

/// The kernel's configuration on top of the default one.
pub(crate) const CONFIG: &str = include_str!("../kernel.config");

/// Goes up when the way of building changes what comes out.
const RECIPE_VERSION: u64 = 1;

/// Which kernel is meant, and how to build it.
#[derive(Debug, Clone, Default)]
pub struct KernelOptions {
    /// A source tree or tarball instead of Debian's package.
    pub source: Option<PathBuf>,
    /// The series of Debian's package; the usual one where absent.
    pub series: Option<Series>,
    /// A ready kernel: nothing is built.
    pub kernel_file: Option<PathBuf>,
    /// Build even if there is one.
    pub force: bool,
    /// Cache folder instead of `$QUELL_CACHE`, `$XDG_CACHE_HOME/quell` or `~/.cache/quell`.
    pub cache: Option<PathBuf>,
    /// How many compilers run side by side; by default one per CPU.
    pub jobs: Option<usize>,
    /// Ring it to end the build: within seconds its processes and files are gone.
    pub cancel: Option<Arc<Bell>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    pub path: PathBuf,
    /// Whether we built it, instead of somebody having named it.
    pub cached: bool,
}

/// What a kernel is built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KernelSource {
    /// A tarball, as Debian's package linux-source-6.1 brings one.
    DebianTarball(PathBuf),
    /// An unpacked source tree; it is copied, never changed.
    Tree(PathBuf),
}

impl KernelSource {
    /// The source that the options name, or Debian's.
    pub(crate) fn of(options: &KernelOptions) -> KernelSource {
        match &options.source {
            Some(path) if path.is_dir() => KernelSource::Tree(path.clone()),
            Some(path) => KernelSource::DebianTarball(path.clone()),
            None => KernelSource::DebianTarball(options.series.unwrap_or_default().source()),
        }
    }

    pub fn path(&self) -> &Path {
        match self {
            KernelSource::DebianTarball(path) | KernelSource::Tree(path) => path,
        }
    }

    /// Tells versions of it apart: the tarball's size and time come with the package and are the same on every machine.
    fn identity(&self) -> Option<String> {
        let file = match self {
            KernelSource::DebianTarball(path) => path.clone(),
            KernelSource::Tree(path) => path.join("Makefile"),
        };
        let meta = std::fs::metadata(&file).ok()?;
        let time = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_secs();
        let name = match self {
            KernelSource::DebianTarball(path) => path.file_name()?.to_os_string(),
            KernelSource::Tree(path) => std::fs::canonicalize(path).ok()?.into_os_string(),
        };
        Some(format!("{} {} {time}", name.to_string_lossy(), meta.len()))
    }

    /// The key of the kernel that is built from it; none if the source is not there.
    pub(crate) fn key(&self) -> Option<String> {
        let identity = self.identity()?;
        let version = self.version().unwrap_or_else(|| "linux".into());
        let recipe = recipe(Series::of(&version));
        Some(format!("{version}-{recipe}-{:016x}", hash([identity.as_bytes()])))
    }

    /// The version that its name or its Makefile tells.
    fn version(&self) -> Option<String> {
        match self {
            KernelSource::DebianTarball(path) => version_in(&path.file_name()?.to_string_lossy()),
            KernelSource::Tree(path) => tree_version(path),
        }
    }

    /// The series of kernels that it is of.
    pub fn series(&self) -> Series {
        self.version().map_or(Series::default(), |version| Series::of(&version))
    }
}

/// The first word of digits and dots in a file's name: `linux-source-6.1.tar.xz` has 6.1.
fn version_in(name: &str) -> Option<String> {
    let word = name.split(['-', '_', ' ']).find(|w| w.starts_with(|c: char| c.is_ascii_digit()))?;
    let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
    Some(word[..end].trim_matches('.').to_string())
}

fn tree_version(tree: &Path) -> Option<String> {
    let text = std::fs::read_to_string(tree.join("Makefile")).ok()?;
    let field = |name: &str| {
        let line = text.lines().find(|l| l.split('=').next().is_some_and(|k| k.trim() == name))?;
        Some(line.split('=').nth(1)?.trim().to_string())
    };
    Some(format!(
        "{}.{}.{}{}",
        field("VERSION")?,
        field("PATCHLEVEL")?,
        field("SUBLEVEL")?,
        field("EXTRAVERSION")?
    ))
}

/// Names our part: configuration, edits and way of building.
pub(crate) fn recipe(series: Series) -> String {
    let edits = series.edits().iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]);
    let version = RECIPE_VERSION.to_le_bytes();
    let parts = [version.as_slice(), CONFIG.as_bytes()].into_iter().chain(edits);
    format!("{:016x}", hash(parts))
}

/// FNV-1a, 64 bits: a name, not a proof. Parts are set apart by their lengths.
fn hash<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for part in parts {
        for byte in (part.len() as u64).to_le_bytes().iter().chain(part) {
            state = (state ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    state
}

pub(crate) fn folder(options: &KernelOptions) -> Option<PathBuf> {
    let cache = options.cache.clone().or_else(|| {
        cache_from(
            std::env::var_os("QUELL_CACHE"),
            std::env::var_os("XDG_CACHE_HOME"),
            std::env::var_os("HOME"),
        )
    })?;
    Some(cache.join("kernel"))
}

fn cache_from(
    own: Option<OsString>,
    xdg: Option<OsString>,
    home: Option<OsString>,
) -> Option<PathBuf> {
    let path = |value: Option<OsString>| value.filter(|v| !v.is_empty()).map(PathBuf::from);
    // The XDG specification: a relative path is invalid and is ignored.
    let xdg = path(xdg).filter(|p| p.is_absolute()).map(|p| p.join("quell"));
    path(own).or(xdg).or_else(|| Some(path(home)?.join(".cache/quell")))
}

/// A file of the cache that can't be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{what} {}: {error}", .path.display())]
pub struct CacheError {
    pub what: &'static str,
    pub path: PathBuf,
    pub error: io::Error,
}

impl CacheError {
    /// Says what was tried on which file, as `map_err` wants it.
    pub(crate) fn when(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CacheError {
        let path = path.to_path_buf();
        move |error| CacheError { what, path, error }
    }
}

/// The folder `<key>.building`, in which a kernel comes together; gone when it is dropped. Whoever makes one holds the key's lock.
pub(crate) struct Building {
    pub path: PathBuf,
    target: PathBuf,
}

impl Building {
    /// Empty; what a killed builder left goes.
    pub fn new(folder: &Path, key: &str) -> Result<Building, CacheError> {
        let path = folder.join(format!("{key}.building"));
        match std::fs::remove_dir_all(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(CacheError::when("removing the half-built kernel in", &path)(e));
            }
            _ => {}
        }
        let building = Building { path, target: folder.join(key) };
        let out = building.out();
        std::fs::create_dir_all(&out).map_err(CacheError::when("making the folder", &out))?;
        Ok(building)
    }

    /// What of it becomes the kernel's folder.
    pub fn out(&self) -> PathBuf {
        self.path.join("out")
    }

    /// Moves the kernel `out/linux`, with what is known of it, to where it is looked for, in one step.
    pub fn put(&self, info: &Info) -> Result<Kernel, CacheError> {
        let (out, target) = (self.out(), &self.target);
        let (linux, about) = (out.join("linux"), out.join("info.json"));
        let info = Info { path: target.join("linux"), ..info.clone() };
        let write = serde_json::to_vec_pretty(&info).map_err(io::Error::other).and_then(|text| {
            let mut file = File::create(&about)?;
            file.write_all(&text)?;
            file.sync_all()
        });
        write.map_err(CacheError::when("writing", &about))?;
        let synced = File::open(&linux).and_then(|f| f.sync_all());
        synced.map_err(CacheError::when("writing", &linux))?;
        // An earlier kernel of this key: rename() replaces only an empty folder.
        match std::fs::rename(target, self.path.join("earlier")) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(CacheError::when("replacing", target)(e));
            }
            _ => {}
        }
        std::fs::rename(&out, target).map_err(CacheError::when("putting in place", target))?;
        Ok(Kernel { path: info.path, cached: true })
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        // The next one removes what is left.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// The kernel in a folder, if it is whole.
pub(crate) fn kernel_in(folder: &Path) -> Option<Kernel> {
    let (path, info) = (folder.join("linux"), folder.join("info.json"));
    (path.is_file() && info.is_file()).then_some(Kernel { path, cached: true })
}

/// The newest kernel of our recipe for a series, whatever its source: one that was built where the source is no longer installed.
pub(crate) fn newest(folder: &Path, series: Series) -> Option<Kernel> {
    let recipe = format!("-{}-", recipe(series));
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let kernels = entries.filter(|e| {
        let name = e.file_name().to_string_lossy().into_owned();
        name.contains(&recipe) && !name.contains(".building")
    });
    let whole = kernels.filter_map(|e| {
        let kernel = kernel_in(&e.path())?;
        Some((std::fs::metadata(&kernel.path).ok()?.modified().ok()?, kernel))
    });
    whole.max_by_key(|(time, _)| *time).map(|(_, kernel)| kernel)
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Info {
    pub path: PathBuf,
    /// Its version, as it says itself.
    pub version: String,
    pub size: u64,
    /// CRC-32 of the file as it was built; nothing for a kernel that somebody named.
    pub crc32: Option<u32>,
    pub virtual_time: bool,
    /// Whether its randomness can be seeded: the same seed then gives the same bytes.
    pub seeded: bool,
    /// What it was built from; nothing for a kernel that somebody named.
    pub built: Option<Built>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Built {
    pub key: String,
    pub source: PathBuf,
    /// The compiler's own words.
    pub compiler: String,
    /// When it was ready, in seconds since 1970.
    pub at_unix_s: u64,
    /// How long it took, in seconds.
    pub took_s: f64,
    pub edits: Vec<String>,
    /// Options that were asked for and that this source has not.
    pub refused: Vec<String>,
    pub options: Vec<String>,
}

impl std::fmt::Display for Info {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let yes = |b: bool| if b { "yes" } else { "no" };
        writeln!(f, "kernel        {}", self.path.display())?;
        writeln!(f, "version       {}", self.version)?;
        writeln!(f, "size          {:.1} MB", self.size as f64 / 1e6)?;
        writeln!(f, "virtual time  {}", yes(self.virtual_time))?;
        writeln!(f, "seeded        {}", yes(self.seeded))?;
        let Some(built) = &self.built else { return Ok(()) };
        writeln!(f, "source        {}", built.source.display())?;
        writeln!(f, "key           {}", built.key)?;
        writeln!(f, "compiler      {}", built.compiler)?;
        writeln!(f, "build took    {:.0} s", built.took_s)?;
        writeln!(f, "edits         {}", built.edits.join(", "))?;
        writeln!(f, "options       {} on", built.options.len())?;
        if !built.refused.is_empty() {
            writeln!(f, "not in source {}", built.refused.join(", "))?;
        }
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    #[error("there is no lab kernel{} in {} yet", of_series(*.series), .folder.display())]
    NotBuilt { series: Series, folder: PathBuf },
    #[error("where to keep kernels? Set QUELL_CACHE or HOME to a folder")]
    NoCache,
    #[error(transparent)]
    NotReady(#[from] NotReady),
    #[error("the lab kernel {} is damaged: {why}; build it again with `quell lab kernel build --force`", .path.display())]
    Damaged { path: PathBuf, why: String },
    #[error(
        "the lab kernel is not used: {0}; or build it in another one: QUELL_CACHE=FOLDER quell lab kernel build"
    )]
    Untrusted(#[from] TrustError),
    #[error("the kernel's description {}: {why}; build it again with `quell lab kernel build --force`", .path.display())]
    Info { path: PathBuf, why: String },
}

/// ` of Linux 6.12`; nothing of the usual one.
fn of_series(series: Series) -> String {
    match series == Series::default() {
        true => String::new(),
        false => format!(" of Linux {series}"),
    }
}

/// The kernel that the options mean. A named one is asked whether it can travel in time; one of our own was asked when built, and must
/// still be the same, byte for byte.
pub fn find(options: &KernelOptions) -> Result<Kernel, NotFound> {
    if let Some(path) = &options.kernel_file {
        ready::inspect(path)?;
        return Ok(Kernel { path: path.clone(), cached: false });
    }
    let folder = self::folder(options).ok_or(NotFound::NoCache)?;
    let source = KernelSource::of(options);
    let series = source.series();
    let found = match source.key() {
        Some(key) => kernel_in(&folder.join(key)),
        None => None,
    };
    // Without a source to compare with, any kernel of our recipe is the one.
    let found = found.or_else(|| newest(&folder, series).filter(|_| options.source.is_none()));
    let found = found.ok_or(NotFound::NotBuilt { series, folder })?;
    whole(&found)?;
    Ok(found)
}

/// Whether a kernel of the cache is what was built, in a folder that nobody else can change.
pub(crate) fn whole(kernel: &Kernel) -> Result<(), NotFound> {
    TrustedFolder::open(&kernel.path)?;
    let info = info(kernel)?;
    let damaged = |why: String| NotFound::Damaged { path: kernel.path.clone(), why };
    let bytes = std::fs::read(&kernel.path).map_err(|e| damaged(e.to_string()))?;
    if bytes.len() as u64 != info.size {
        let (has, built) = (bytes.len(), info.size);
        return Err(damaged(format!("it has {has} bytes and was built with {built}")));
    }
    if info.crc32 != Some(crc32fast::hash(&bytes)) {
        let why = "its content does not fit the checksum that it was built with";
        return Err(damaged(why.into()));
    }
    Ok(())
}

pub fn info(kernel: &Kernel) -> Result<Info, NotFound> {
    if !kernel.cached {
        let ready = ready::inspect(&kernel.path)?;
        let size = std::fs::metadata(&kernel.path).map_or(0, |m| m.len());
        let Ready { version, virtual_time, seeded } = ready;
        let path = kernel.path.clone();
        return Ok(Info { path, version, size, crc32: None, virtual_time, seeded, built: None });
    }
    let path = kernel.path.with_file_name("info.json");
    let failed = |why: String| NotFound::Info { path: path.clone(), why };
    let text = std::fs::read(&path).map_err(|e| failed(e.to_string()))?;
    let info: Info = serde_json::from_slice(&text).map_err(|e| failed(e.to_string()))?;
    // The cache may have been moved since.
    Ok(Info { path: kernel.path.clone(), ..info })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_environment_says() {
        let of = |a: &str, b: &str, c: &str| {
            let some = |s: &str| (!s.is_empty()).then(|| OsString::from(s));
            cache_from(some(a), some(b), some(c))
        };
        assert_eq!(of("/q", "/x", "/h"), Some("/q".into()));
        assert_eq!(of("", "/x", "/h"), Some("/x/quell".into()));
        assert_eq!(of("", "relative", "/h"), Some("/h/.cache/quell".into()));
        assert_eq!(of("", "", ""), None);
    }

    #[test]
    fn a_version_is_found_in_names_and_makefiles() {
        assert_eq!(version_in("linux-source-6.1.tar.xz"), Some("6.1".into()));
        let of = |name: &str| KernelSource::DebianTarball(PathBuf::from(name)).series();
        assert_eq!(of("/usr/src/linux-source-6.12.tar.xz"), Series::V6_12);
        assert_eq!(version_in("linux.tar"), None);
        let tree = std::env::temp_dir().join(format!("quell-tree-{}", std::process::id()));
        std::fs::create_dir_all(&tree).unwrap();
        let text = "VERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 7\nEXTRAVERSION = -x\nNAME = y\n";
        std::fs::write(tree.join("Makefile"), text).unwrap();
        assert_eq!(tree_version(&tree), Some("6.1.7-x".into()));
        let key = KernelSource::Tree(tree.clone()).key().unwrap();
        assert!(key.starts_with("6.1.7-x-") && key.contains(&recipe(Series::V6_1)), "{key}");
        std::fs::remove_dir_all(&tree).unwrap();
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(hash([b"ab".as_slice(), b"c"]), hash([b"a".as_slice(), b"bc"]));
    }

    #[test]
    fn half_a_kernel_is_none() {
        let folder = std::env::temp_dir().join(format!("quell-half-{}", std::process::id()));
        let whole = folder.join(format!("6.1-{}-0", recipe(Series::V6_1)));
        std::fs::create_dir_all(&whole).unwrap();
        std::fs::write(whole.join("linux"), "").unwrap();
        let newest = |folder: &Path| newest(folder, Series::V6_1);
        assert_eq!(newest(&folder), None);
        std::fs::write(whole.join("info.json"), "{}").unwrap();
        assert_eq!(newest(&folder).map(|k| k.path), Some(whole.join("linux")));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_kernel_in_the_cache_that_is_not_what_was_built_is_told_with_what_to_do() {
        let cache = tempfile::tempdir().unwrap();
        let source = cache.path().join("source.tar");
        std::fs::write(&source, "this is no tarball").unwrap();
        let options = KernelOptions {
            source: Some(source),
            cache: Some(cache.path().into()),
            ..KernelOptions::default()
        };
        let folder = cache.path().join("kernel").join(KernelSource::of(&options).key().unwrap());
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("linux");
        std::fs::write(&path, "a kernel").unwrap();
        let info = Info {
            path: path.clone(),
            version: "6.1".into(),
            size: 8,
            crc32: Some(crc32fast::hash(b"a kernel")),
            virtual_time: true,
            seeded: true,
            built: None,
        };
        let text = serde_json::to_string(&info).unwrap();
        std::fs::write(folder.join("info.json"), text).unwrap();
        assert_eq!(find(&options).unwrap().path, path);
        let mode = |mode| std::fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
        mode(0o777);
        let error = find(&options).unwrap_err().to_string();
        assert!(
            error.contains("other users may write") && error.contains("QUELL_CACHE"),
            "{error}"
        );
        mode(0o755);
        for (content, says) in [("a kernem", "checksum"), ("a ker", "it has 5 bytes")] {
            std::fs::write(&path, content).unwrap();
            let error = find(&options).unwrap_err();
            assert!(matches!(error, NotFound::Damaged { .. }));
            let text = error.to_string();
            assert!(text.contains(says) && text.contains("build --force"), "{text}");
            // Building does not take it for one either, and goes to the source.
            assert!(crate::build(&options, &mut |_| {}).is_err());
        }
    }
}
