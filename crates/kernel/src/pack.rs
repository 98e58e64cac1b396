//! A built kernel as one file that can be carried to another machine: a `.tar.gz` of `KEY/info.json` and `KEY/linux`.
//!
//! The same kernel gives the same bytes. Of a file from elsewhere nothing but these two is taken, and nothing of the cache is touched before the
//! checksum of the kernel, its key, and what it says of itself when it is started have been believed. The checksum is against damage, not
//! against malice: an imported kernel is a program that will be run.

use crate::cache::{self, Building, CacheError};
use crate::{Info, Kernel, KernelOptions, NotFound, NotReady, Ready, Series, info, ready};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use nix::fcntl::{Flock, FlockArg, OFlag};
use quell_sys::trusted::TrustedFolder;
use quell_wire::text::printable;
use std::fs::{File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Most bytes of a kernel and of what is known of it, unpacked; ours has 7 MB.
const LARGEST: u64 = 256 << 20;
const LONGEST_KEY: usize = 100;

#[derive(Debug, thiserror::Error)]
pub enum CarryError {
    #[error(transparent)]
    NotFound(#[from] NotFound),
    #[error("only a kernel that Quell built can be exported; {} can be copied as it is, and named with --kernel-file", .0.display())]
    Named(PathBuf),
    #[error(transparent)]
    File(#[from] CacheError),
    #[error("{} is no lab kernel that can be imported: {why}", .path.display())]
    Refused { path: PathBuf, why: String },
    #[error("the kernel in {} does not work here: {error}", .path.display())]
    NotReady { path: PathBuf, error: NotReady },
    #[error("somebody builds or imports the kernel {0} at this moment; try again when it is done")]
    Busy(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedKernel {
    /// The kernel in the cache.
    pub kernel: Kernel,
    /// Whether the same was there already; then nothing was changed.
    pub was_there: bool,
}

pub fn export(kernel: &Kernel) -> Result<Vec<u8>, CarryError> {
    let named = || CarryError::Named(kernel.path.clone());
    if !kernel.cached {
        return Err(named());
    }
    let known = info(kernel)?;
    let key = known.built.as_ref().ok_or_else(named)?.key.clone();
    let bytes = std::fs::read(&kernel.path).map_err(CacheError::when("reading", &kernel.path))?;
    Ok(pack(&bytes, &key, known).map_err(CacheError::when("packing", &kernel.path))?)
}

fn pack(kernel: &[u8], key: &str, known: Info) -> io::Result<Vec<u8>> {
    // Where it lay is of no use elsewhere.
    let about = serde_json::to_vec_pretty(&Info { path: PathBuf::from("linux"), ..known })?;
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
    for (name, bytes, mode) in [("info.json", &about[..], 0o644), ("linux", kernel, 0o755)] {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        header.set_mtime(0);
        archive.append_data(&mut header, format!("{key}/{name}"), bytes)?;
    }
    archive.into_inner()?.finish()
}

/// Reads a file of [`export`]; says in words what is wrong with any other.
fn unpack(file: impl Read) -> Result<(String, Info, Vec<u8>), String> {
    let broken = |e: io::Error| {
        format!(
            "it is no file of `quell lab kernel export`, or is damaged: {}",
            printable(&e.to_string(), 200)
        )
    };
    let mut whole = Vec::new();
    GzDecoder::new(file).take(LARGEST + 1).read_to_end(&mut whole).map_err(broken)?;
    if whole.len() as u64 > LARGEST {
        return Err(format!("it holds more than {LARGEST} bytes"));
    }
    let (mut about, mut kernel) = (None, None);
    for entry in tar::Archive::new(&whole[..]).entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).map_err(broken)?;
        match entry.path().map_err(broken)?.file_name().and_then(|name| name.to_str()) {
            Some("info.json") => about = Some(bytes),
            Some("linux") => kernel = Some(bytes),
            _ => {}
        }
    }
    let (about, kernel) = about.zip(kernel).ok_or(
        "it does not hold info.json and linux, as a file of `quell lab kernel export` does",
    )?;
    let known: Info = serde_json::from_slice(&about)
        .map_err(|e| format!("its info.json can't be read: {}", printable(&e.to_string(), 200)))?;
    let key = known.built.as_ref().map(|built| built.key.clone()).unwrap_or_default();
    let in_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if key.is_empty()
        || key.len() > LONGEST_KEY
        || key.starts_with('.')
        || key.ends_with(".building")
        || !key.chars().all(in_key)
    {
        return Err(format!("`{}` is no key of a kernel", printable(&key, LONGEST_KEY)));
    }
    let is_of = |series| key.contains(&format!("-{}-", cache::recipe(series)));
    if !Series::ALL.into_iter().any(is_of) {
        return Err(format!(
            "another version of Quell built its kernel ({key}), with other edits or options: export it with this version, \
             or build one with `quell lab kernel build`"
        ));
    }
    if known.size != kernel.len() as u64 || known.crc32 != Some(crc32fast::hash(&kernel)) {
        return Err(
            "the kernel in it does not fit its checksum: it is damaged; carry it again".into()
        );
    }
    Ok((key, known, kernel))
}

/// Puts a kernel that was exported elsewhere into the cache; one that is there and whole stays, unless `force` is set.
pub fn import(path: &Path, options: &KernelOptions) -> Result<ImportedKernel, CarryError> {
    let refused = |why: String| CarryError::Refused { path: path.into(), why };
    // A pipe or a device would be waited for, or never end.
    let opened = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let opened = opened.map_err(CacheError::when("reading", path))?;
    if !opened.metadata().map_err(CacheError::when("reading", path))?.is_file() {
        return Err(refused("it is no regular file".into()));
    }
    let (key, known, kernel) = unpack(opened).map_err(refused)?;
    let folder = cache::folder(options).ok_or(NotFound::NoCache)?;
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let made = TrustedFolder::make(&folder, 0o755).map_err(std::io::Error::from);
    made.map_err(CacheError::when("making the folder", &folder))?;
    let lock_path = folder.join(format!("{key}.lock"));
    let lock = File::options().write(true).create(true).truncate(false).open(&lock_path);
    let lock = lock.map_err(CacheError::when("opening", &lock_path))?;
    let _lock = match Flock::lock(lock, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => lock,
        Err((_, nix::Error::EWOULDBLOCK)) => return Err(CarryError::Busy(key)),
        Err((_, errno)) => return Err(CacheError::when("locking", &lock_path)(errno.into()).into()),
    };
    let there = cache::kernel_in(&folder.join(&key)).filter(|kernel| cache::whole(kernel).is_ok());
    if let (Some(kernel), false) = (there, options.force) {
        return Ok(ImportedKernel { kernel, was_there: true });
    }
    let building = Building::new(&folder, &key)?;
    let linux = building.out().join("linux");
    let written = std::fs::write(&linux, &kernel)
        .and_then(|()| std::fs::set_permissions(&linux, Permissions::from_mode(0o755)));
    written.map_err(CacheError::when("writing", &linux))?;
    let not_ready = |error| CarryError::NotReady { path: path.into(), error };
    let Ready { version, virtual_time, seeded } = ready::inspect(&linux).map_err(not_ready)?;
    let kernel = building.put(&Info { version, virtual_time, seeded, ..known })?;
    Ok(ImportedKernel { kernel, was_there: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Built;

    const KERNEL: &[u8] = b"no kernel at all";

    fn known() -> Info {
        let built = Built {
            key: format!("6.1-{}-0", cache::recipe(Series::V6_1)),
            source: "/usr/src/linux".into(),
            compiler: "gcc".into(),
            at_unix_s: 1,
            took_s: 2.0,
            edits: vec!["clock.edit".into()],
            refused: Vec::new(),
            options: vec!["CONFIG_NET=y".into()],
        };
        Info {
            path: "/srv/kernels/linux".into(),
            version: "6.1".into(),
            size: KERNEL.len() as u64,
            crc32: Some(crc32fast::hash(KERNEL)),
            virtual_time: true,
            seeded: true,
            built: Some(built),
        }
    }

    fn packed(change: impl FnOnce(&mut Info)) -> Vec<u8> {
        let mut known = known();
        change(&mut known);
        pack(KERNEL, "key", known).unwrap()
    }

    fn with_key(key: &str) -> Vec<u8> {
        packed(|info| info.built.as_mut().unwrap().key = key.into())
    }

    #[test]
    fn what_is_packed_comes_out_again_and_the_same_kernel_gives_the_same_bytes() {
        let whole = packed(|_| {});
        let (key, info, kernel) = unpack(&whole[..]).unwrap();
        assert_eq!((kernel.as_slice(), info.version.as_str()), (KERNEL, "6.1"));
        assert_eq!(key, known().built.unwrap().key);
        assert_eq!(info.path, Path::new("linux"), "where it lay is nobody's business");
        assert_eq!(whole, packed(|_| {}));
    }

    #[test]
    fn a_file_that_is_cut_or_lies_is_refused_with_what_is_wrong() {
        let whole = packed(|_| {});
        for length in 0..whole.len() {
            assert!(unpack(&whole[..length]).is_err(), "{length} bytes");
        }
        let lies = [
            ("no key of a kernel", with_key("../../../etc/cron.d/x")),
            ("no key of a kernel", with_key("")),
            ("another version of Quell", with_key("6.1-0123456789abcdef-0")),
            ("does not fit its checksum", packed(|info| info.size = 7)),
            ("does not fit its checksum", packed(|info| info.crc32 = Some(7))),
            ("no file of", b"\x7fELF and so on".to_vec()),
        ];
        for (says, bytes) in lies {
            let why = unpack(&bytes[..]).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
    }

    #[test]
    fn a_file_that_is_refused_leaves_the_cache_as_it_was() {
        let cache = std::env::temp_dir().join(format!("quell-carry-{}", std::process::id()));
        let options = KernelOptions { cache: Some(cache.clone()), ..KernelOptions::default() };
        let path = cache.with_extension("kernel");
        std::fs::write(&path, &packed(|_| {})[..100]).unwrap();
        assert!(matches!(import(&path, &options), Err(CarryError::Refused { .. })));
        assert!(!cache.exists(), "nothing was touched");
        // Whole, and its kernel is none.
        std::fs::write(&path, packed(|_| {})).unwrap();
        assert!(matches!(import(&path, &options), Err(CarryError::NotReady { .. })));
        let left: Vec<_> = std::fs::read_dir(cache.join("kernel")).unwrap().flatten().collect();
        assert!(left.iter().all(|e| e.file_name().to_string_lossy().ends_with(".lock")));
        assert!(matches!(
            import(Path::new("/dev/zero"), &options),
            Err(CarryError::Refused { .. })
        ));
        std::fs::remove_dir_all(&cache).unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
