//! The transaction: over a model of a machine, and on interfaces of the tests' own.

#[path = "../../../quell/tests/support/left_out.rs"]
mod left_out;
#[path = "../model/mod.rs"]
mod model;

mod guests;
mod live;
mod vanished;
mod way_back;
