//! What holds for the source tree as a whole.
//!
//! ```text
//!   cargo metadata ──► layers      a crate uses lower layers only
//!                  └─► licences    every dependency may be passed on
//!   files          ──► sources     no file too long, every crate says what it is
//!                  ├─► glossary    a word is one type
//!                  ├─► names       a name is three types at most
//!                  ├─► words       no path or host of one machine
//!                  ├─► waits       the lab waits for things and not for times
//!                  ├─► prose       sentences are short and English plain
//!                  ├─► reads       a file that a person names is read up to an end
//!                  └─► links       documents point to files that exist
//! ```
//!
//! Each check is a function from data to a list of problems, so that it can be shown a made-up tree with a fault in it as well as
//! the real one. The tests under `tests/` hold the real tree against all of them.

#![allow(missing_docs)] // Nobody uses it as a library.

pub mod glossary;
pub mod layers;
pub mod licences;
pub mod links;
pub mod names;
pub mod prose;
pub mod reads;
pub mod sources;
pub mod tree;
pub mod waits;
pub mod words;
