//! Chromium, as tests have it. Where it is not installed they are left out, which is said.

// Each test binary uses its part of this.
#![allow(dead_code)]

use crate::support::left_out;

pub mod looks;
pub mod tab;

/// Whether there is none; says so.
pub fn lacks_chromium() -> bool {
    let lacks = quell_page::browser::find(None).err();
    if let Some(error) = &lacks {
        left_out::for_want_of(error);
    }
    lacks.is_some()
}
