//! What a run shows: analysis, comparisons, tables, the page, the zoomable view.

#[path = "all/analysis.rs"]
mod analysis;
#[path = "all/common.rs"]
mod common;
#[path = "all/compare.rs"]
mod compare;
#[path = "all/drawn.rs"]
mod drawn;
#[path = "all/follow.rs"]
mod follow;
#[path = "all/many_streams.rs"]
mod many_streams;
#[path = "all/measured.rs"]
mod measured;
#[path = "all/pages.rs"]
mod pages;
#[path = "all/shown.rs"]
mod shown;
#[path = "all/values.rs"]
mod values;
#[path = "all/view.rs"]
mod view;
