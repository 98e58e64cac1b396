//! What is loaded, served or written for a browser, in a real Chromium. Where it is not installed these stories are left out, which is said.

mod html;
mod page;
mod web;

#[path = "../support/browser/mod.rs"]
mod browser;
// The measurements are invented: what a page looks like needs none, and each time it is the same.
#[path = "../support/invented.rs"]
mod invented;
#[path = "../support/mesh.rs"]
mod mesh;
#[path = "../serve/server.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;
