//! Both ends of a connection prove that they share a secret, before anything else is said on it (`quell_wire::auth`).
//!
//! ```text
//!   client   prove ──────►  accept the opening (its first 8 bytes told the server what it is)   demand   server
//! ```

use super::exchange::{Exchange, ExchangeError};
use crate::{SysError, secret};
use quell_wire::auth::{self, MAGIC, NONCE, Nonces, PROOF, Secret, Side};

/// Why a connection is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PrefaceError {
    /// The other end hung up where the proof was due.
    #[error(
        "the server does not accept our secret, or wants none: compare the secret files of both ends"
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
    /// The system would not let us.
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
    exchange.write(&nonces.proof(secret, Side::Client)).map_err(refused)?;
    let mut proof = [0; PROOF];
    exchange.read(&mut proof).map_err(refused)?;
    match nonces.proven(secret, Side::Server, &proof) {
        true => Ok(()),
        false => Err(PrefaceError::Unproven),
    }
}

/// The server's part, after [`MAGIC`] was read. Errors when the client does not know the secret, which then gets no answer.
pub fn demand(exchange: &mut Exchange<'_>, secret: &Secret) -> Result<(), PrefaceError> {
    let mut client = [0; NONCE];
    exchange.read(&mut client)?;
    let nonces = Nonces { client, server: secret::nonce()? };
    exchange.write(&nonces.server)?;
    let mut proof = [0; PROOF];
    exchange.read(&mut proof)?;
    if !nonces.proven(secret, Side::Client, &proof) {
        return Err(PrefaceError::Unproven);
    }
    Ok(exchange.write(&nonces.proof(secret, Side::Server))?)
}

/// The server's part where nothing was read yet.
pub fn demand_all(exchange: &mut Exchange<'_>, secret: &Secret) -> Result<(), PrefaceError> {
    let mut magic = [0; MAGIC.len()];
    exchange.read(&mut magic)?;
    if magic != *MAGIC {
        return Err(PrefaceError::Foreign);
    }
    demand(exchange, secret)
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

    #[test]
    fn a_recorded_preface_does_not_work_again() {
        let secret = secret("correct horse battery");
        let recorded = {
            let (one, other) = pair();
            scope(|scope| {
                let secret = &secret;
                scope.spawn(move || with(&other, |e| demand_all(e, secret)));
                let opening = auth::opening(&[9; NONCE]);
                with(&one, |e| {
                    e.write(&opening).unwrap();
                    let mut server = [0; NONCE];
                    e.read(&mut server).unwrap();
                    let proof = Nonces { client: [9; NONCE], server }.proof(secret, Side::Client);
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
