//! An iperf3 server of the test's own.

// Some who have this file have that one too.
#[allow(clippy::duplicate_mod)]
#[path = "../../../quell/tests/support/left_out.rs"]
mod left_out;

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};

/// An iperf3 server that listens.
pub struct Server {
    pub child: Child,
    pub at: SocketAddr,
}

impl Server {
    /// None where iperf3 is not installed.
    pub fn start() -> Option<Self> {
        for _ in 0..5 {
            let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let port = free.port().to_string();
            let child = Command::new("iperf3")
                .args(["-s", "-B", "127.0.0.1", "--forceflush", "-p", &port])
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn();
            let mut child = match child {
                Ok(child) => child,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    left_out::for_want_of(format!("there is no iperf3 on this machine ({error})"));
                    return None;
                }
                Err(error) => panic!("iperf3 can't be started: {error}"),
            };
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            // It ends at once where somebody took the port meanwhile.
            if lines.map_while(Result::ok).any(|line| line.contains("listening")) {
                return Some(Self { child, at: free });
            }
            let _ = child.wait();
        }
        panic!("iperf3 never listened");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
