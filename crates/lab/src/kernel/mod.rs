//! The guest kernel: user-mode Linux with virtual time, built from source once, then found in the cache.
//!
//! ```text
//!   source (Debian's linux-source-6.1 or -6.12, or a tree)
//!      │ unpack ─ edit (../../kernel/edits) ─ configure (../../kernel/kernel.config) ─ make ─ strip ─ try
//!      ▼
//!   <cache>/kernel/<key>/linux ── find ──► guest::boot
//! ```
//!
//! A kernel appears in the cache in one step, when it is whole and has said that it can travel in time. Two builders don't
//! meet: the second waits for the first and takes what it built. Needs no root and no network.

mod build;
mod edit;
mod job;
mod offers;
mod options;
mod pack;
mod place;
mod ready;
mod series;
mod sum;
mod tools;

pub use build::{BuildError, build};
pub use edit::EditError;
pub use offers::{congestion_asked, congestion_controls};
pub use options::{Kernel, KernelOptions};
pub use pack::{CarryError, ImportedKernel, export, import};
pub use place::KernelSource;
pub use ready::{NotReady, Ready, inspect};
pub use series::Series;
pub use tools::MissingTool;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use sum::Sum;

/// How far a build is.
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

/// What is known of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// Its file.
    pub path: PathBuf,
    /// Its version, as it says itself.
    pub version: String,
    /// Bytes.
    pub size: u64,
    /// CRC-32 of the file as it was built; nothing for a kernel that somebody named, and for one built before this was kept.
    #[serde(default)]
    pub crc32: Option<u32>,
    /// Whether its clock can jump.
    pub virtual_time: bool,
    /// Whether its randomness can be seeded: the same seed then gives the same bytes.
    pub seeded: bool,
    /// What it was built from; nothing for a kernel that somebody named.
    pub built: Option<Built>,
}

/// How a kernel was built.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// Key in the cache.
    pub key: String,
    /// The source.
    pub source: PathBuf,
    /// The compiler's own words.
    pub compiler: String,
    /// When it was ready, in seconds since 1970.
    pub at_unix_s: u64,
    /// How long it took, in seconds.
    pub took_s: f64,
    /// Files of edits that were applied.
    pub edits: Vec<String>,
    /// Options that were asked for and that this source has not.
    pub refused: Vec<String>,
    /// Every option that is on.
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

/// Why there is no kernel to use.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// None was built yet.
    #[error("there is no lab kernel{} in {} yet", of_series(*.series), .folder.display())]
    NotBuilt {
        /// Which one was asked for.
        series: Series,
        /// Where it was looked for.
        folder: PathBuf,
    },
    /// Neither a cache nor a home folder is known.
    #[error("where to keep kernels? Set QUELL_CACHE or HOME to a folder")]
    NoCache,
    /// The named kernel can't be used.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// It is not what was built.
    #[error("the lab kernel {} is damaged: {why}; build it again with `quell kernel build --force`", .path.display())]
    Damaged {
        /// Its file.
        path: PathBuf,
        /// How that is known.
        why: String,
    },
    /// Its description can't be read.
    #[error("the kernel's description {}: {why}; build it again with `quell kernel build --force`", .path.display())]
    Info {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
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
    let folder = place::folder(options).ok_or(NotFound::NoCache)?;
    let source = KernelSource::of(options);
    let series = source.series();
    let found = match source.key() {
        Some(key) => place::kernel_in(&folder.join(key)),
        None => None,
    };
    // Without a source to compare with, any kernel of our recipe is the one.
    let found =
        found.or_else(|| place::newest(&folder, series).filter(|_| options.source.is_none()));
    let found = found.ok_or(NotFound::NotBuilt { series, folder })?;
    whole(&found)?;
    Ok(found)
}

/// Whether a kernel of the cache is what was built.
fn whole(kernel: &Kernel) -> Result<(), NotFound> {
    let info = info(kernel)?;
    let damaged = |why: String| NotFound::Damaged { path: kernel.path.clone(), why };
    let sum = Sum::of(&kernel.path).map_err(|e| damaged(e.to_string()))?;
    if sum.size != info.size {
        return Err(damaged(format!("it has {} bytes and was built with {}", sum.size, info.size)));
    }
    match info.crc32 {
        Some(crc32) if crc32 != sum.crc32 => {
            Err(damaged("its content does not fit the checksum that it was built with".into()))
        }
        _ => Ok(()),
    }
}

/// What is known of a kernel that was found.
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

    /// A cache with a kernel that says of itself what `quell kernel build` writes.
    fn cache(name: &str, crc32: impl Fn(Sum) -> Option<u32>) -> (KernelOptions, PathBuf) {
        let cache = std::env::temp_dir().join(format!("quell-{name}-{}", std::process::id()));
        let source = cache.join("source.tar");
        std::fs::create_dir_all(&cache).unwrap();
        std::fs::write(&source, "this is no tarball").unwrap();
        let options = KernelOptions {
            source: Some(source),
            cache: Some(cache.clone()),
            ..KernelOptions::default()
        };
        let key = KernelSource::of(&options).key().unwrap();
        let folder = cache.join("kernel").join(key);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("linux");
        std::fs::write(&path, "a kernel").unwrap();
        let sum = Sum::of(&path).unwrap();
        let info = Info {
            path: path.clone(),
            version: "6.1".into(),
            size: sum.size,
            crc32: crc32(sum),
            virtual_time: true,
            seeded: true,
            built: None,
        };
        let mut text = serde_json::to_value(info).unwrap();
        if crc32(sum).is_none() {
            // As before there was a checksum.
            text.as_object_mut().unwrap().remove("crc32");
        }
        std::fs::write(folder.join("info.json"), text.to_string()).unwrap();
        (options, path)
    }

    #[test]
    fn a_kernel_in_the_cache_that_is_not_what_was_built_is_told_with_what_to_do() {
        let (options, path) = cache("flipped", |sum| Some(sum.crc32));
        assert_eq!(find(&options).unwrap().path, path);
        std::fs::write(&path, "a kernem").unwrap();
        let error = find(&options).unwrap_err();
        assert!(matches!(error, NotFound::Damaged { .. }));
        let text = error.to_string();
        assert!(text.contains("checksum") && text.contains("build --force"), "{text}");
        // Building does not take it for one either, and goes to the source.
        assert!(build(&options, &mut |_| {}).is_err());
        std::fs::remove_dir_all(options.cache.unwrap()).unwrap();
    }

    #[test]
    fn a_kernel_from_before_checksums_is_used_if_its_size_is_right() {
        let (options, path) = cache("sizes", |_| None);
        assert_eq!(find(&options).unwrap().path, path);
        std::fs::write(&path, "a ker").unwrap();
        let text = find(&options).unwrap_err().to_string();
        assert!(text.contains("it has 5 bytes and was built with 8"), "{text}");
        std::fs::remove_dir_all(options.cache.unwrap()).unwrap();
    }
}
