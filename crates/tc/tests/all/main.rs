//! Trees: written, planned, compared.

mod changes;
mod tables;
mod trees;
