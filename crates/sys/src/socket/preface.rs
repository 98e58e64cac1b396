//! Both ends of a connection prove that they share a secret, before anything else is said on it (`quell_wire::auth`).
//!
//! ```text
//!   client   prove ──────►  accept the opening (its first 8 bytes told the server what it is)   demand   server
//! ```

use super::exchange::{Exchange, ExchangeError};
use crate::{SysError, secret};
use nix::errno::Errno;
use quell_wire::auth::{self, MAGIC, NONCE, Nonces, PROOF, Secret, Side};
use std::net::SocketAddr;

/// Why a connection is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrefaceError {
    /// The other end hung up where the proof was due.
    #[error(
        "the server does not accept our secret, or wants none: compare the secret files of both ends\n  \
         Behind NAT the server is told the address that clients use: quell serve --reached-at ADDRESS"
    )]
    Refused,
    /// The other end proved something else.
    #[error("the other end does not know our secret: compare the secret files of both ends")]
    Unproven,
    /// The other end sent something else.
    #[error("the other end did not prove that it knows the secret")]
    Foreign,
    /// Nothing came, or the connection broke.
    #[error("{0}")]
    Exchange(#[from] ExchangeError),
    #[error("{0}")]
    System(#[from] SysError),
}

/// The client's part, right after connecting. Errors when the server does not accept the proof, or can't prove that it is the right one.
pub fn prove(exchange: &mut Exchange<'_>, secret: &Secret) -> Result<(), PrefaceError> {
    let client = secret::nonce()?;
    let refused = |error| match error {
        ExchangeError::Closed => PrefaceError::Refused,
        error => error.into(),
    };
    exchange.write(&auth::opening(&client)).map_err(refused)?;
    let mut server = [0; NONCE];
    exchange.read(&mut server).map_err(refused)?;
    let nonces = Nonces { client, server };
    let at = known(exchange.stream().peer())?;
    exchange.write(&nonces.proof(secret, Side::Client, at)).map_err(refused)?;
    let mut proof = [0; PROOF];
    exchange.read(&mut proof).map_err(refused)?;
    match auth::same(&nonces.proof(secret, Side::Server, at), &proof) {
        true => Ok(()),
        false => Err(PrefaceError::Unproven),
    }
}

fn known(address: Option<SocketAddr>) -> Result<SocketAddr, SysError> {
    address.ok_or_else(|| SysError::new("read a connection's address", Errno::ENOTCONN))
}

/// The server's part, after [`MAGIC`] was read; it is reached at the connection's own address, or at one of those. Errors when the client does not
/// know the secret, or means another server; it gets no answer then.
pub fn demand(
    exchange: &mut Exchange<'_>,
    secret: &Secret,
    reached_at: &[SocketAddr],
) -> Result<(), PrefaceError> {
    let mut client = [0; NONCE];
    exchange.read(&mut client)?;
    let nonces = Nonces { client, server: secret::nonce()? };
    exchange.write(&nonces.server)?;
    let mut proof = [0; PROOF];
    exchange.read(&mut proof)?;
    let own = known(exchange.stream().local())?;
    let is_meant = |at: &&SocketAddr| auth::same(&nonces.proof(secret, Side::Client, **at), &proof);
    let at = [own].iter().chain(reached_at).find(is_meant).copied();
    let at = at.ok_or(PrefaceError::Unproven)?;
    Ok(exchange.write(&nonces.proof(secret, Side::Server, at))?)
}

/// The server's part where nothing was read yet.
pub fn demand_all(exchange: &mut Exchange<'_>, secret: &Secret) -> Result<(), PrefaceError> {
    let mut magic = [0; MAGIC.len()];
    exchange.read(&mut magic)?;
    if magic != *MAGIC {
        return Err(PrefaceError::Foreign);
    }
    demand(exchange, secret, &[])
}

#[cfg(test)]
mod tests {
    use super::super::exchange::tests::pair;
    use super::super::stream::TcpSocket;
    use super::*;
    use crate::clock::monotonic_ns;
    use crate::wait::Bell;
    use std::thread::scope;

    fn secret(text: &str) -> Secret {
        Secret::parse(text.as_bytes()).unwrap()
    }

    fn with<T>(stream: &TcpSocket, work: impl FnOnce(&mut Exchange<'_>) -> T) -> T {
        let bell = Bell::new().unwrap();
        let soon = monotonic_ns() + 60_000_000_000;
        work(&mut Exchange::new(stream, Some(soon), &bell).unwrap())
    }

    /// Both parts, each with its secret: how each ended. The server hangs up where it does not believe.
    fn meet(
        client: &Secret,
        server: &Secret,
    ) -> (Result<(), PrefaceError>, Result<(), PrefaceError>) {
        let (one, other) = pair();
        scope(|scope| {
            let asked = scope.spawn(move || with(&other, |e| demand_all(e, server)));
            (with(&one, |e| prove(e, client)), asked.join().unwrap())
        })
    }

    #[test]
    fn ends_with_the_same_secret_believe_each_other() {
        let same = secret("correct horse battery");
        assert_eq!(meet(&same, &same), (Ok(()), Ok(())));
    }

    #[test]
    fn a_client_with_the_wrong_secret_is_turned_away() {
        let ends = meet(&secret("correct horse stapler"), &secret("correct horse battery"));
        assert_eq!(ends, (Err(PrefaceError::Refused), Err(PrefaceError::Unproven)));
    }

    #[test]
    fn a_server_that_only_pretends_is_found_out() {
        let (one, other) = pair();
        scope(|scope| {
            scope.spawn(move || {
                with(&other, |e| {
                    e.read(&mut [0; auth::OPENING]).unwrap();
                    e.write(&[5; NONCE]).unwrap();
                    let mut proof = [0; PROOF];
                    e.read(&mut proof).unwrap();
                    e.write(&proof).unwrap();
                });
            });
            let end = with(&one, |e| prove(e, &secret("correct horse battery")));
            assert_eq!(end, Err(PrefaceError::Unproven));
        });
    }

    /// Hands each end's words on to the other, so many bytes in turn.
    fn relay(client: &TcpSocket, server: &TcpSocket) {
        for (from, to, many) in [
            (client, server, auth::OPENING),
            (server, client, NONCE),
            (client, server, PROOF),
            (server, client, PROOF),
        ] {
            let mut bytes = vec![0; many];
            let handed = with(from, |e| e.read(&mut bytes))
                .is_ok_and(|()| with(to, |e| e.write(&bytes)).is_ok());
            if !handed {
                return [from, to].into_iter().for_each(TcpSocket::abort);
            }
        }
    }

    #[test]
    fn a_server_that_hands_a_proof_on_is_let_in_nowhere_unless_it_is_the_way_to_that_server() {
        let secret = &secret("correct horse battery");
        for is_nat in [false, true] {
            let ((client, hostile), (relaying, genuine)) = (pair(), pair());
            let reached_at: Vec<_> = client.peer().into_iter().filter(|_| is_nat).collect();
            let ends = scope(|scope| {
                let asked = scope.spawn(|| {
                    with(&genuine, |e| {
                        let mut magic = [0; MAGIC.len()];
                        e.read(&mut magic).unwrap();
                        let ended = demand(e, secret, &reached_at);
                        genuine.finish();
                        ended
                    })
                });
                scope.spawn(|| relay(&hostile, &relaying));
                (with(&client, |e| prove(e, secret)), asked.join().unwrap())
            });
            let refused = (Err(PrefaceError::Refused), Err(PrefaceError::Unproven));
            assert_eq!(ends, if is_nat { (Ok(()), Ok(())) } else { refused });
        }
    }

    #[test]
    fn a_recorded_preface_does_not_work_again() {
        let secret = secret("correct horse battery");
        let recorded = {
            let (one, other) = pair();
            scope(|scope| {
                let secret = &secret;
                scope.spawn(move || with(&other, |e| demand_all(e, secret)));
                let opening = auth::opening(&[9; NONCE]);
                let at = one.peer().unwrap();
                with(&one, |e| {
                    e.write(&opening).unwrap();
                    let mut server = [0; NONCE];
                    e.read(&mut server).unwrap();
                    let nonces = Nonces { client: [9; NONCE], server };
                    let proof = nonces.proof(secret, Side::Client, at);
                    e.write(&proof).unwrap();
                    e.read(&mut [0; PROOF]).unwrap();
                    [&opening[..], &proof].concat()
                })
            })
        };
        let (one, other) = pair();
        scope(|scope| {
            let asked = scope.spawn(|| with(&other, |e| demand_all(e, &secret)));
            with(&one, |e| e.write(&recorded)).unwrap();
            assert_eq!(asked.join().unwrap(), Err(PrefaceError::Unproven));
        });
    }

    #[test]
    fn a_stranger_who_says_nothing_of_the_kind_is_foreign() {
        let (one, other) = pair();
        one.write(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let end = with(&other, |e| demand_all(e, &secret("correct horse battery")));
        assert_eq!(end, Err(PrefaceError::Foreign));
    }
}
