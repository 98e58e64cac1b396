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

use super::{Kernel, KernelOptions, Series};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The kernel's configuration on top of the default one.
pub(super) const CONFIG: &str = include_str!("../../kernel/kernel.config");

/// Goes up when the way of building changes what comes out.
const RECIPE_VERSION: u64 = 1;

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
    pub(super) fn of(options: &KernelOptions) -> KernelSource {
        match &options.source {
            Some(path) if path.is_dir() => KernelSource::Tree(path.clone()),
            Some(path) => KernelSource::DebianTarball(path.clone()),
            None => KernelSource::DebianTarball(options.series.unwrap_or_default().source()),
        }
    }

    /// Its path.
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
    pub(super) fn key(&self) -> Option<String> {
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

/// The version in a tree's Makefile.
pub(super) fn tree_version(tree: &Path) -> Option<String> {
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
pub(super) fn recipe(series: Series) -> String {
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

/// The folder of all kernels.
pub(super) fn folder(options: &KernelOptions) -> Option<PathBuf> {
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

/// The kernel in a folder, if it is whole.
pub(super) fn kernel_in(folder: &Path) -> Option<Kernel> {
    let (path, info) = (folder.join("linux"), folder.join("info.json"));
    (path.is_file() && info.is_file()).then_some(Kernel { path, cached: true })
}

/// The newest kernel of our recipe for a series, whatever its source: one that was built where the source is no longer installed.
pub(super) fn newest(folder: &Path, series: Series) -> Option<Kernel> {
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
}
