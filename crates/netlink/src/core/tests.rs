//! Conversations with a kernel that behaves as the real one rarely does: a table that changes while
//! it is read, answers to questions of long ago, giant answers, cut ones, none.

use super::message::HEADER;
use super::{Cause, DecodeError, Message, NetlinkError, Protocol, Socket};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

const ENTRY: u16 = 16;

/// A netlink message; the flags and the payload are as the kernel would send them.
fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let length = (HEADER + payload.len()) as u32;
    let mut bytes = length.to_ne_bytes().to_vec();
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn acknowledgement(sequence: u32, code: i32) -> Vec<u8> {
    let mut payload = code.to_ne_bytes().to_vec();
    payload.extend_from_slice(&[0; HEADER]);
    message(libc::NLMSG_ERROR as u16, 0, sequence, &payload)
}

fn done(sequence: u32) -> Vec<u8> {
    message(libc::NLMSG_DONE as u16, libc::NLM_F_MULTI as u16, sequence, &0i32.to_ne_bytes())
}

/// Asks a kernel that answers each request, given its sequence number and how many came before,
/// with these datagrams.
fn with_kernel<T>(
    answer: impl Fn(u32, usize) -> Vec<Vec<u8>> + Send,
    ask: impl FnOnce(&mut Socket) -> T,
) -> T {
    let (ours, kernels) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || serve(&kernels, answer));
        let mut socket = Socket::over(ours, Protocol::Route);
        socket.timeout = Duration::from_millis(500);
        ask(&mut socket)
    })
}

fn serve(kernels: &OwnedFd, answer: impl Fn(u32, usize) -> Vec<Vec<u8>>) {
    let mut request = [0; 4096];
    for count in 0.. {
        let length = recv(kernels.as_raw_fd(), &mut request, MsgFlags::empty()).unwrap_or(0);
        if length < HEADER {
            return;
        }
        let sequence = u32::from_ne_bytes([request[8], request[9], request[10], request[11]]);
        for datagram in answer(sequence, count) {
            // The asker may have had enough.
            let _ = send(kernels.as_raw_fd(), &datagram, MsgFlags::MSG_NOSIGNAL);
        }
    }
}

fn question() -> Message {
    Message::with_header("ask", 18, 0, &[0; 16])
}

/// Reads a table whose entries are single bytes.
fn table(socket: &mut Socket) -> Result<Vec<u8>, NetlinkError> {
    let mut entries = Vec::new();
    socket.dump(&question(), |reply| {
        entries.push(reply.payload[0]);
        Ok(())
    })?;
    Ok(entries)
}

#[test]
fn a_table_that_changes_while_it_is_read_is_read_again_and_seen_once() {
    let answer = |sequence, count| {
        let interrupted = if count < 2 { super::flags::DUMP_INTERRUPTED } else { 0 };
        let version = count as u8;
        vec![
            message(ENTRY, libc::NLM_F_MULTI as u16, sequence, &[version]),
            [
                message(ENTRY, libc::NLM_F_MULTI as u16 | interrupted, sequence, &[version]),
                done(sequence),
            ]
            .concat(),
        ]
    };
    assert_eq!(with_kernel(answer, table), Ok(vec![2, 2]));
}

#[test]
fn a_table_that_never_stops_changing_is_an_error_not_an_endless_loop() {
    let answer = |sequence, _| {
        vec![message(libc::NLMSG_DONE as u16, super::flags::DUMP_INTERRUPTED, sequence, &[0; 4])]
    };
    let error = with_kernel(answer, table).unwrap_err();
    assert_eq!(error.cause, Cause::KeptChanging { attempts: 16 });
}

#[test]
fn a_table_that_fails_half_way_is_an_error_with_the_kernels_number() {
    let answer = |sequence, _| {
        let failed = (-(Errno::ENOMEM as i32)).to_ne_bytes();
        vec![
            message(ENTRY, libc::NLM_F_MULTI as u16, sequence, &[1]),
            message(libc::NLMSG_DONE as u16, libc::NLM_F_MULTI as u16, sequence, &failed),
        ]
    };
    assert_eq!(with_kernel(answer, table).unwrap_err().errno(), Some(Errno::ENOMEM));
}

#[test]
fn answers_to_earlier_questions_are_passed_over() {
    let answer = |sequence: u32, _| {
        let old = sequence.wrapping_sub(1);
        vec![
            acknowledgement(old, -(Errno::EPERM as i32)),
            message(ENTRY, 0, old, &[9]),
            acknowledgement(sequence, 0),
        ]
    };
    let replies = with_kernel(answer, |socket| socket.request(&question()));
    assert_eq!(replies, Ok(Vec::new()));
}

#[test]
fn the_buffer_grows_to_an_answer_larger_than_itself() {
    const SIZE: usize = 150_000;
    let answer = |sequence, _| {
        vec![message(ENTRY, 0, sequence, &vec![7; SIZE]), acknowledgement(sequence, 0)]
    };
    let replies = with_kernel(answer, |socket| socket.request(&question())).unwrap();
    assert_eq!(replies[0].payload, vec![7; SIZE]);
}

#[test]
fn an_answer_that_claims_more_than_it_has_is_an_error() {
    let answer = |sequence, _| {
        let mut lie = acknowledgement(sequence, 0);
        lie[..4].copy_from_slice(&4000u32.to_ne_bytes());
        vec![lie]
    };
    let error = with_kernel(answer, |socket| socket.request_ack(&question())).unwrap_err();
    assert!(matches!(error.cause, Cause::Answer(DecodeError::Truncated { .. })), "{error}");
}

#[test]
fn silence_and_half_an_answer_end_at_the_deadline() {
    for answer in [
        |_, _| Vec::new(),
        |sequence, _| vec![message(ENTRY, libc::NLM_F_MULTI as u16, sequence, &[1])],
    ] {
        let ask = |socket: &mut Socket| {
            socket.timeout = Duration::from_millis(20);
            table(socket)
        };
        let error = with_kernel(answer, ask).unwrap_err();
        assert_eq!(error.cause, Cause::Timeout(Duration::from_millis(20)));
    }
}

#[test]
fn a_batch_reports_the_message_that_was_refused() {
    let ask = |socket: &mut Socket| {
        let message = |text: &str| Message::new(text, 16, super::flags::ACK);
        socket.batch(&[message("do the first"), message("do the second"), message("do the third")])
    };
    let answer = |first, _| {
        vec![
            acknowledgement(first, 0),
            acknowledgement(first + 1, -(Errno::EEXIST as i32)),
            acknowledgement(first + 2, 0),
        ]
    };
    let error = with_kernel(answer, ask).unwrap_err();
    assert_eq!((error.tried.as_str(), error.errno()), ("do the second", Some(Errno::EEXIST)));
    let fine = |first, _| (first..first + 3).map(|each| acknowledgement(each, 0)).collect();
    assert_eq!(with_kernel(fine, ask), Ok(()));
}

#[test]
fn of_many_requests_the_one_that_was_refused_is_told_by_its_number_and_no_datagram_comes_behind_its_own()
 {
    let message = |number: usize| Message::new(format!("do number {number}"), 16, 0);
    let messages: Vec<Message> = (0..150).map(message).collect();
    let all: Vec<&Message> = messages.iter().collect();
    let asked = std::sync::atomic::AtomicUsize::new(0);
    // 64 in a datagram: number 70 is in the second one of three.
    let answer = |first: u32, count: usize| {
        asked.fetch_max(count + 1, std::sync::atomic::Ordering::Relaxed);
        let last = (first + 64).min(151);
        let code = |each: u32| if each == 71 || each == 73 { -(Errno::EEXIST as i32) } else { 0 };
        (first..last).map(|each| acknowledgement(each, code(each))).collect()
    };
    let (number, error) = with_kernel(answer, |socket| socket.request_all(&all)).unwrap_err();
    assert_eq!((number, error.tried.as_str()), (70, "do number 70"));
    assert_eq!(asked.into_inner(), 2);
    let fine = |first: u32, _| {
        (first..(first + 64).min(151)).map(|each| acknowledgement(each, 0)).collect()
    };
    assert_eq!(with_kernel(fine, |socket| socket.request_all(&all)), Ok(()));
}

#[test]
fn of_many_tables_those_with_something_in_them_are_read_one_by_one() {
    let busy = |sequence| acknowledgement(sequence, -(Errno::EBUSY as i32));
    // The second of four has an entry, and keeps the kernel busy; each is then asked for alone.
    let answer = |first: u32, count: usize| match count {
        0 => vec![
            done(first),
            message(ENTRY, libc::NLM_F_MULTI as u16, first + 1, &[0]),
            busy(first + 2),
            busy(first + 3),
            done(first + 1),
        ],
        1 => vec![message(ENTRY, libc::NLM_F_MULTI as u16, first, &[7]), done(first)],
        2 => vec![done(first)],
        _ => vec![message(ENTRY, libc::NLM_F_MULTI as u16, first, &[8]), done(first)],
    };
    let questions = [question(), question(), question(), question()];
    let mut found = Vec::new();
    let ask = |socket: &mut Socket| {
        socket.dump_all(&questions, |table, reply| {
            found.push((table, reply.payload[0]));
            Ok(())
        })
    };
    with_kernel(answer, ask).unwrap();
    assert_eq!(found, [(1, 7), (3, 8)]);
}

#[test]
fn an_oversized_attribute_is_not_sent() {
    let mut message = question();
    message.attrs().bytes(5, &[0; 70_000]);
    let error = with_kernel(|_, _| Vec::new(), |socket| socket.request_ack(&message)).unwrap_err();
    assert_eq!(error.cause, Cause::Oversized { kind: 5 });
}
