//! Any bytes as what is said over HTTP: heads of requests and answers, a server's configuration, a result, an address.
//!
//! ```text
//!   bytes ──► request  answer  configuration  result  address        the first byte says which
//! ```

#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_web::well_known::NqConfig;
use quell_web::sent::SentResult;
use quell_web::url::Url;
use quell_web::{head, well_known, sent};

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    match which % 5 {
        0 => request(bytes),
        1 => answer(bytes),
        2 => config(bytes),
        3 => result(bytes),
        _ => address(bytes),
    }
});

/// A head ends where its bytes say, whatever comes behind it, and what is refused is refused with more behind it, too.
fn request(bytes: &[u8]) {
    let more = [bytes, b"GET / HTTP/1.1\r\n\r\n"].concat();
    match head::request(bytes) {
        Ok(Some((read, length))) => {
            assert!(length <= bytes.len() && length <= head::LONGEST);
            assert_eq!(head::request(&more), Ok(Some((read, length))));
        }
        Ok(None) => assert!(bytes.len() < head::LONGEST),
        Err(error) => assert!(!error.to_string().contains(char::is_control)),
    }
}

fn answer(bytes: &[u8]) {
    match head::answer(bytes) {
        Ok(Some((_, length))) => assert!(length <= bytes.len() && length <= head::LONGEST),
        Ok(None) => assert!(bytes.len() < head::LONGEST),
        Err(error) => assert!(!error.to_string().contains(char::is_control)),
    }
}

fn config(bytes: &[u8]) {
    match NqConfig::parse(bytes) {
        Ok(config) => {
            assert!(bytes.len() <= well_known::LONGEST);
            assert_eq!(NqConfig::parse(config.json().as_bytes()).as_ref(), Ok(&config));
            assert_eq!(config.large.host, config.upload.host);
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.len() < 1000 && !said.contains(char::is_control), "{said:?}");
        }
    }
}

fn result(bytes: &[u8]) {
    let Some(read) = SentResult::read(bytes, 1_800_000_000) else { return };
    assert!(bytes.len() <= sent::LONGEST);
    for word in [&read.program, &read.what] {
        assert!(word.len() < 400 && !word.contains(char::is_control), "{word:?}");
    }
}

fn address(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some(url) = Url::parse(text) else { return };
    assert!(!url.host.is_empty() && url.port > 0 && url.path.starts_with('/'));
    assert_eq!(Url::parse(&url.to_string()), Some(url));
}
