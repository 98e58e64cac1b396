//! Texts as Python 2 and 3 write them into a pickle.

/// Bytes as a text: UTF-8, else Latin-1, which has a character for every byte.
pub(crate) fn decode(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => latin1(bytes),
    }
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// A text as Python 2's `repr` quotes it; none where the quotes or an escape are wrong.
pub(crate) fn quoted(line: &[u8]) -> Option<String> {
    let line = line.trim_ascii();
    let quote = *line.first()?;
    let inner = line.get(1..line.len().checked_sub(1)?)?;
    if !matches!(quote, b'\'' | b'"') || line.last() != Some(&quote) {
        return None;
    }
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.iter().copied();
    while let Some(byte) = rest.next() {
        if byte == quote {
            return None;
        }
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'x' => hex(&[rest.next()?, rest.next()?]).and_then(|v| u8::try_from(v).ok())?,
            same @ (b'\\' | b'\'' | b'"') => same,
            _ => return None,
        });
    }
    Some(decode(&bytes))
}

/// A text with `\uXXXX` and `\UXXXXXXXX` (Python's raw-unicode-escape); none where an escape is wrong.
pub(crate) fn escaped(line: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(line.len());
    let mut high: Option<u32> = None;
    let mut at = 0;
    while let Some(byte) = line.get(at) {
        let digits = match (byte, line.get(at + 1)) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => 0,
        };
        if digits == 0 {
            if high.is_some() {
                return None;
            }
            text.push(char::from(*byte));
            at += 1;
            continue;
        }
        let code = hex(line.get(at + 2..at + 2 + digits)?)?;
        at += 2 + digits;
        // A narrow Python 2 writes characters beyond U+FFFF as two halves.
        match (high.take(), code) {
            (None, 0xd800..=0xdbff) => high = Some(code),
            (Some(high), 0xdc00..=0xdfff) => {
                text.push(char::from_u32(0x1_0000 + ((high & 0x3ff) << 10) + (code & 0x3ff))?);
            }
            (None, _) => text.push(char::from_u32(code)?),
            (Some(_), _) => return None,
        }
    }
    high.is_none().then_some(text)
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits
        .iter()
        .try_fold(0_u32, |value, digit| Some((value << 4) | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reprs_of_python_2_are_read() {
        assert_eq!(quoted(br"'a\'b\\ \x41\n'").as_deref(), Some("a'b\\ A\n"));
        assert_eq!(quoted(br#""it's""#).as_deref(), Some("it's"));
        assert_eq!(quoted(br"'\xc3\xa9'").as_deref(), Some("é"));
        assert_eq!(quoted(br"'\xe9'").as_deref(), Some("é"));
        for wrong in [&b"'"[..], b"", b"abc", b"'a\"", b"'a'b'", br"'\x4'", br"'\q'", br"'\'"] {
            assert_eq!(quoted(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn raw_unicode_escapes_are_read() {
        assert_eq!(escaped(b"caf\xe9 \\u20ac").as_deref(), Some("café €"));
        assert_eq!(escaped(br"\U0001f600\ud83d\ude00").as_deref(), Some("😀😀"));
        assert_eq!(escaped(br"a\b").as_deref(), Some(r"a\b"));
        for wrong in [&br"\u12"[..], br"\ud83d", br"\ud83d\u0041", br"\uzzzz"] {
            assert_eq!(escaped(wrong), None, "{wrong:?}");
        }
    }
}
