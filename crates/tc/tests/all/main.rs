//! Trees: written, planned, compared.

mod after;
mod changes;
mod tables;
mod trees;
