//! The program as a person calls it: what starts it and waits for its end.

mod bad_input;
mod columns;
mod compare;
mod doctor;
mod documents;
mod every;
mod export;
mod flow;
mod habits;
mod import;
mod kernels;
mod machines;
mod measured;
mod mesh_agents;
mod mesh_planned;
mod mesh_shown;
mod pages_shown;
mod ping;
mod plot;
mod rr;
mod series;
mod services;
mod shape;
mod shape_device;
mod show_follow;
mod starved;
mod stopped;
mod strangers;
mod subscribers;
mod ten_thousand;
mod trace;
mod tree;
mod trusted_folders;
mod tune;
mod view;

#[path = "../../../mesh/tests/broker/support.rs"]
mod broker;
#[path = "../../../trace/tests/all/common.rs"]
mod captures;
#[path = "../../../report/tests/all/drawn.rs"]
mod drawn;
#[path = "../support/mesh.rs"]
mod mesh;
#[path = "../../../flow/tests/peer/mod.rs"]
mod peer;
#[path = "../../../flow/tests/peer/played.rs"]
mod played;
#[path = "../serve/server.rs"]
mod server;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/terminal.rs"]
mod terminal;

use support::left_out;
