//! A built kernel as one file that can be carried to another machine.
//!
//! ```text
//!   "QUELLKRN" · format (u32) · length of the head (u32) · head (JSON) · kernel (deflate) · SHA-256 of all before
//! ```
//!
//! Numbers are little-endian. The head says what the kernel is and how long its parts are; there are no names of files in it. The same kernel
//! gives the same bytes. Nothing of the cache is touched before all of the file has been believed: bounds, checksums, architecture, key, and
//! what the kernel says of itself. The checksum is against damage, not against malice: an imported kernel is a program that will be run.

use super::sum::Sum;
use super::{Info, Kernel, NotFound, NotReady, Options, Series, info, place, ready};
use flate2::Compression;
use flate2::read::{DeflateDecoder, DeflateEncoder};
use nix::fcntl::{Flock, FlockArg, OFlag};
use quell_wire::text::printable;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"QUELLKRN";
/// Goes up when what stands in the file changes its meaning.
const FORMAT: u32 = 1;
/// Before the head.
const FRONT: usize = 16;
const DIGEST: usize = 32;
/// Of the head; with all options that are on, a kernel's takes 16 kB.
const LONGEST_HEAD: usize = 1 << 20;
/// Of a kernel; ours has 7 MB.
const LARGEST_KERNEL: u64 = 256 << 20;
/// Of a whole file: deflate adds little where it saves nothing.
const LARGEST_FILE: u64 = LARGEST_KERNEL + LARGEST_KERNEL / 1000 + (LONGEST_HEAD + 4096) as u64;
const LONGEST_KEY: usize = 100;

/// What stands before the kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    /// As the compiler calls it: `x86_64`.
    architecture: String,
    /// Key in the cache, which names source, configuration and edits.
    key: String,
    /// Bytes of the kernel as it is packed.
    packed_size: u64,
    /// SHA-256 of the kernel, unpacked.
    sha256: String,
    /// All that is known of it; its path is left out.
    kernel: Info,
}

/// Why a kernel could not be carried.
#[derive(Debug, thiserror::Error)]
pub enum CarryError {
    /// There is none to export.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// It was not built here.
    #[error("only a kernel that Quell built can be exported; {} can be copied as it is, and named with --kernel-file", .0.display())]
    Named(PathBuf),
    /// A file can't be read or written.
    #[error("{what} {}: {error}", .path.display())]
    File {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system answered.
        error: io::Error,
    },
    /// It is no file of ours, or no longer.
    #[error("{} is no lab kernel that can be imported: {why}", .path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// What came out does not run here.
    #[error("the kernel in {} does not work here: {error}", .path.display())]
    NotReady {
        /// The file that it came in.
        path: PathBuf,
        /// How it is not what is needed.
        error: NotReady,
    },
    /// Another is at work.
    #[error("somebody builds or imports the kernel {0} at this moment; try again when it is done")]
    Busy(String),
}

/// What became of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The kernel in the cache.
    pub kernel: Kernel,
    /// Whether the same was there already; then nothing was changed.
    pub was_there: bool,
}

/// A built kernel as bytes for a file.
pub fn export(kernel: &Kernel) -> Result<Vec<u8>, CarryError> {
    if !kernel.cached {
        return Err(CarryError::Named(kernel.path.clone()));
    }
    let known = info(kernel)?;
    let key = match &known.built {
        Some(built) => built.key.clone(),
        None => return Err(CarryError::Named(kernel.path.clone())),
    };
    let bytes = std::fs::read(&kernel.path).map_err(file("reading", &kernel.path))?;
    pack(&bytes, key, known).map_err(file("packing", &kernel.path))
}

fn pack(kernel: &[u8], key: String, known: Info) -> io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    DeflateEncoder::new(kernel, Compression::best()).read_to_end(&mut packed)?;
    let head = Head {
        architecture: std::env::consts::ARCH.into(),
        key,
        packed_size: packed.len() as u64,
        sha256: hexadecimal(&Sha256::digest(kernel)),
        // Where it lay is of no use elsewhere.
        kernel: Info { path: PathBuf::from("linux"), ..known },
    };
    let head = serde_json::to_vec(&head)?;
    let length = u32::try_from(head.len()).map_err(io::Error::other)?;
    let mut whole = Vec::with_capacity(FRONT + head.len() + packed.len() + DIGEST);
    whole.extend_from_slice(MAGIC);
    whole.extend_from_slice(&FORMAT.to_le_bytes());
    whole.extend_from_slice(&length.to_le_bytes());
    whole.extend_from_slice(&head);
    whole.extend_from_slice(&packed);
    let digest = Sha256::digest(&whole);
    whole.extend_from_slice(&digest);
    Ok(whole)
}

/// What a file holds, believed.
#[derive(Debug)]
struct Unpacked {
    head: Head,
    kernel: Vec<u8>,
}

/// Reads a file of [`export`]; says in words what is wrong with any other.
fn unpack(bytes: &[u8]) -> Result<Unpacked, String> {
    let cut = || "it is cut short; carry it again".to_owned();
    let number = |at: usize| {
        let four = bytes.get(at..at + 4)?.first_chunk()?;
        Some(u32::from_le_bytes(*four))
    };
    if bytes.get(..MAGIC.len()) != Some(MAGIC) {
        return Err("it does not begin as a file of `quell kernel export`".into());
    }
    let format = number(8).ok_or_else(cut)?;
    if format != FORMAT {
        return Err(format!(
            "it has format {format} and this Quell reads {FORMAT}; export it with the same version"
        ));
    }
    let length = number(12).ok_or_else(cut)? as usize;
    if length > LONGEST_HEAD {
        return Err(format!("its head would have {length} bytes; at most {LONGEST_HEAD} are read"));
    }
    let body = FRONT + length;
    let end = bytes.len().checked_sub(DIGEST).filter(|end| *end >= body).ok_or_else(cut)?;
    if Sha256::digest(&bytes[..end]).as_slice() != &bytes[end..] {
        return Err("its checksum does not fit: it is damaged or cut short; carry it again".into());
    }
    let head: Head = serde_json::from_slice(&bytes[FRONT..body]).map_err(|e| {
        // The error quotes what it can't read.
        format!("its head can't be read: {}", printable(&e.to_string(), 200))
    })?;
    head.check()?;
    if head.packed_size != (end - body) as u64 {
        return Err(format!(
            "its head tells of {} packed bytes, and there are {}",
            head.packed_size,
            end - body
        ));
    }
    let size = head.kernel.size;
    let mut kernel = Vec::new();
    // A byte more than it says, so that one that says too little is known; not one that says much and holds little.
    let read = DeflateDecoder::new(&bytes[body..end]).take(size + 1).read_to_end(&mut kernel);
    read.map_err(|e| format!("it can't be unpacked: {e}"))?;
    if kernel.len() as u64 != size {
        let more = if kernel.len() as u64 > size { "more" } else { "fewer" };
        return Err(format!("its head tells of a kernel of {size} bytes, and there are {more}"));
    }
    if hexadecimal(&Sha256::digest(&kernel)) != head.sha256 {
        return Err("the kernel in it does not fit its checksum".into());
    }
    Ok(Unpacked { head, kernel })
}

impl Head {
    fn check(&self) -> Result<(), String> {
        let own = std::env::consts::ARCH;
        if self.architecture != own {
            return Err(format!(
                "its kernel is for {}, and this machine is {own}; build one here with `quell kernel build`",
                printable(&self.architecture, 40)
            ));
        }
        let in_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if self.key.is_empty()
            || self.key.len() > LONGEST_KEY
            || self.key.starts_with('.')
            || self.key.ends_with(".building")
            || !self.key.chars().all(in_key)
        {
            return Err(format!("`{}` is no key of a kernel", printable(&self.key, LONGEST_KEY)));
        }
        let is_of = |series| self.key.contains(&format!("-{}-", place::recipe(series)));
        if !Series::ALL.into_iter().any(is_of) {
            return Err(format!(
                "its kernel ({}) was built by another version of Quell, with other edits or options, and this one would not use it; \
                 export it with this version, or build one with `quell kernel build`",
                self.key
            ));
        }
        let built = self.kernel.built.as_ref();
        if built.is_none_or(|built| built.key != self.key) {
            return Err("it names two different keys".into());
        }
        if self.kernel.size == 0 || self.kernel.size > LARGEST_KERNEL {
            return Err(format!(
                "its kernel would have {} bytes; 1 to {LARGEST_KERNEL} are taken",
                self.kernel.size
            ));
        }
        Ok(())
    }
}

/// Puts a kernel that was exported elsewhere into the cache; one that is there and whole stays, unless `force` is set.
pub fn import(path: &Path, options: &Options) -> Result<Imported, CarryError> {
    let refused = |why: String| CarryError::Refused { path: path.into(), why };
    let bytes = whole_file(path)?;
    let Unpacked { head, kernel } = unpack(&bytes).map_err(refused)?;
    let folder = place::folder(options).ok_or(NotFound::NoCache)?;
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    std::fs::create_dir_all(&folder).map_err(file("making the folder", &folder))?;
    let lock_path = folder.join(format!("{}.lock", head.key));
    let lock = File::options().write(true).create(true).truncate(false).open(&lock_path);
    let lock = lock.map_err(file("opening", &lock_path))?;
    let _lock = match Flock::lock(lock, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => lock,
        Err((_, nix::Error::EWOULDBLOCK)) => return Err(CarryError::Busy(head.key)),
        Err((_, errno)) => return Err(file("locking", &lock_path)(errno.into())),
    };
    let target = folder.join(&head.key);
    let there = place::kernel_in(&target).filter(|kernel| super::whole(kernel).is_ok());
    if let (Some(kernel), false) = (there, options.force) {
        return Ok(Imported { kernel, was_there: true });
    }
    // As a build has it: whoever held the lock before and was killed left it.
    let work = Work(folder.join(format!("{}.building", head.key)));
    work.clean().map_err(file("removing", &work.0))?;
    let out = work.0.join("out");
    std::fs::create_dir_all(&out).map_err(file("making the folder", &out))?;
    let linux = out.join("linux");
    write_whole(&linux, &kernel, 0o755).map_err(file("writing", &linux))?;
    let not_ready = |error| CarryError::NotReady { path: path.into(), error };
    let ready = ready::inspect(&linux).map_err(not_ready)?;
    let sum = Sum::of(&linux).map_err(file("reading", &linux))?;
    let known = Info {
        path: target.join("linux"),
        version: ready.version,
        size: sum.size,
        crc32: Some(sum.crc32),
        virtual_time: ready.virtual_time,
        seeded: ready.seeded,
        built: head.kernel.built,
    };
    let about = out.join("info.json");
    let text = serde_json::to_vec_pretty(&known).map_err(io::Error::other);
    text.and_then(|text| write_whole(&about, &text, 0o644)).map_err(file("writing", &about))?;
    // rename() replaces only an empty folder.
    match std::fs::rename(&target, work.0.join("earlier")) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            return Err(file("replacing", &target)(e));
        }
        _ => {}
    }
    std::fs::rename(&out, &target).map_err(file("putting in place", &target))?;
    Ok(Imported { kernel: Kernel { path: target.join("linux"), cached: true }, was_there: false })
}

/// The folder in which a kernel comes together; gone when it is dropped.
struct Work(PathBuf);

impl Work {
    fn clean(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.0) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // The next one removes what is left.
        let _ = self.clean();
    }
}

fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CarryError {
    let path = path.to_path_buf();
    move |error| CarryError::File { what, path, error }
}

/// A regular file of a size that can be one of ours.
fn whole_file(path: &Path) -> Result<Vec<u8>, CarryError> {
    let refused = |why: String| CarryError::Refused { path: path.into(), why };
    // A pipe or a device would be waited for, or never end.
    let opened = File::options().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let opened = opened.map_err(file("reading", path))?;
    let meta = opened.metadata().map_err(file("reading", path))?;
    if !meta.is_file() {
        return Err(refused("it is no regular file".into()));
    }
    if meta.len() > LARGEST_FILE {
        return Err(refused(format!(
            "it has {} bytes; at most {LARGEST_FILE} are read",
            meta.len()
        )));
    }
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    opened.take(LARGEST_FILE).read_to_end(&mut bytes).map_err(file("reading", path))?;
    Ok(bytes)
}

fn write_whole(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Built;
    use super::*;

    fn info(size: u64) -> Info {
        let key = format!("6.1-{}-0", place::recipe(Series::V6_1));
        let built = Built {
            key,
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
            size,
            crc32: None,
            virtual_time: true,
            seeded: true,
            built: Some(built),
        }
    }

    fn key() -> String {
        info(0).built.unwrap().key
    }

    fn packed() -> (Vec<u8>, Vec<u8>) {
        let kernel = b"no kernel at all, but long enough to be packed ".repeat(100);
        (pack(&kernel, key(), info(kernel.len() as u64)).unwrap(), kernel)
    }

    /// The file with another head, its checksum made to fit.
    fn with_head(change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
        let (whole, _) = packed();
        let length = u32::from_le_bytes(*whole[12..16].first_chunk().unwrap()) as usize;
        let mut head = serde_json::from_slice(&whole[FRONT..FRONT + length]).unwrap();
        change(&mut head);
        let head = head.to_string();
        let mut changed = whole[..12].to_vec();
        changed.extend_from_slice(&(head.len() as u32).to_le_bytes());
        changed.extend_from_slice(head.as_bytes());
        changed.extend_from_slice(&whole[FRONT + length..whole.len() - DIGEST]);
        sealed(changed)
    }

    fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
        let digest = Sha256::digest(&bytes);
        bytes.extend_from_slice(&digest);
        bytes
    }

    #[test]
    fn what_is_packed_comes_out_again_and_the_same_kernel_gives_the_same_bytes() {
        let (whole, kernel) = packed();
        let unpacked = unpack(&whole).unwrap();
        assert_eq!(unpacked.kernel, kernel);
        assert_eq!(unpacked.head.kernel.version, "6.1");
        assert_eq!(whole, packed().0);
        assert!(whole.len() < kernel.len(), "it is packed");
        let text = String::from_utf8_lossy(&whole);
        assert!(!text.contains("/srv/"), "where it lay is nobody's business");
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let (whole, _) = packed();
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            assert!(unpack(&flipped).is_err(), "byte {at}");
        }
        for length in 0..whole.len() {
            assert!(unpack(&whole[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_file_that_lies_is_refused_with_what_it_lies_about() {
        let lies: [(&str, Vec<u8>); 11] = [
            ("no key of a kernel", with_head(|h| h["key"] = "../../../etc/cron.d/x".into())),
            ("no key of a kernel", with_head(|h| h["key"] = "/etc/passwd".into())),
            ("no key of a kernel", with_head(|h| h["key"] = "".into())),
            ("another version of Quell", with_head(|h| h["key"] = "6.1-0123456789abcdef-0".into())),
            ("two different keys", {
                with_head(|h| h["key"] = format!("6.2-{}-0", place::recipe(Series::V6_1)).into())
            }),
            ("is for riscv64", with_head(|h| h["architecture"] = "riscv64".into())),
            ("packed bytes", with_head(|h| h["packed_size"] = 7.into())),
            ("there are more", with_head(|h| h["kernel"]["size"] = 7.into())),
            ("there are fewer", with_head(|h| h["kernel"]["size"] = 200_000_000.into())),
            ("are taken", with_head(|h| h["kernel"]["size"] = u64::MAX.into())),
            ("does not fit its checksum", with_head(|h| h["sha256"] = "00".into())),
        ];
        for (says, bytes) in lies {
            let why = unpack(&bytes).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
        let mut long = packed().0;
        long[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(unpack(&long).unwrap_err().contains("its head would have"));
        let mut later = packed().0;
        later[8] = 2;
        assert!(unpack(&later).unwrap_err().contains("format 2"));
        assert!(unpack(b"\x7fELF and so on").unwrap_err().contains("does not begin"));
    }

    #[test]
    fn a_file_that_is_refused_leaves_the_cache_as_it_was() {
        let cache = std::env::temp_dir().join(format!("quell-carry-{}", std::process::id()));
        let options = Options { cache: Some(cache.clone()), ..Options::default() };
        let path = cache.with_extension("kernel");
        std::fs::write(&path, &packed().0[..100]).unwrap();
        assert!(matches!(import(&path, &options), Err(CarryError::Refused { .. })));
        assert!(!cache.exists(), "nothing was touched");
        // Whole, and its kernel is none.
        std::fs::write(&path, packed().0).unwrap();
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
