//! Guests, from the outside and from within.
//!
//! ```text
//!   this program ── boots ──► a guest whose first process is this program again, told by its argument what to do
//!        │                        │
//!        └── reads ◄── shared folder ── writes
//! ```
//!
//! Needs the lab's kernel: `make kernel`.

mod host;
#[path = "../../../quell/tests/support/left_out.rs"]
mod left_out;
mod within;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("within") => within::first_process(&arguments[2..]),
        Some("parent") => host::parent(&arguments[2..]),
        _ => host::run_all(&arguments[1..]),
    }
}
