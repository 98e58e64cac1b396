//! The real tree: its text files, and what cargo knows about its packages.

use cargo_metadata::{Metadata, MetadataCommand};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub text: String,
}

impl File {
    pub fn new(path: &str, text: &str) -> Self {
        File { path: path.into(), text: text.into() }
    }
}

/// What tools make at the root and nobody keeps: see `.gitignore`.
const MADE: [&str; 3] = [".git", "target", "runs"];

/// What fuzzing makes: see `fuzz/.gitignore`; and its inputs, which are no text that anybody wrote.
const FUZZING: [&str; 3] = ["target", "artifacts", "corpus"];

/// The root of the workspace. Asked for when the tests run, since a tree may be moved after it was built.
pub fn root() -> PathBuf {
    let here =
        std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&here).ancestors().nth(2);
    root.expect("this crate lies two folders below the root").to_path_buf()
}

/// Every text file of the tree, in order of path. What is not UTF-8 is no text.
pub fn files(root: &Path) -> std::io::Result<Vec<File>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            // In a linked working tree `.git` is a file.
            if folder == root && MADE.iter().any(|made| entry.file_name() == *made) {
                continue;
            }
            // The fuzz targets are a workspace of their own; what they collect is data.
            if folder.ends_with("fuzz") && FUZZING.iter().any(|made| entry.file_name() == *made) {
                continue;
            }
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file()
                && let Ok(text) = String::from_utf8(std::fs::read(&path)?)
            {
                let relative = path.strip_prefix(root).unwrap_or(&path);
                found.push(File { path: relative.to_string_lossy().into_owned(), text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// What cargo knows about the workspace and its dependencies on Linux. Asks without the network first; a fresh clone of which only a
/// part was built lacks packages, and then cargo may fetch what the lock file names.
pub fn metadata(root: &Path) -> Result<Metadata, cargo_metadata::Error> {
    let ask = |more: &[&str]| {
        let mut options = vec![
            "--locked".to_string(),
            "--filter-platform".into(),
            "x86_64-unknown-linux-gnu".into(),
        ];
        options.extend(more.iter().map(ToString::to_string));
        MetadataCommand::new().manifest_path(root.join("Cargo.toml")).other_options(options).exec()
    };
    ask(&["--offline"]).or_else(|_| ask(&[]))
}
