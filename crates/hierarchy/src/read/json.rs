//! JSON as `tc -j` writes it, which is not always JSON.
//!
//! ```text
//!   "options":{default 20 }                          hfsc, fw, basic: text where a value belongs
//!   "match":{…},"success":0,"match":{…}              u32: the same name twice
//! ```
//!
//! Text that stands where none may is kept as words; names come as often as they stand there. Depth is bounded, and the memory is as the text.

#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
    Words(String),
}

impl Json {
    pub fn get(&self, name: &str) -> Option<&Json> {
        self.members().iter().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    pub fn members(&self) -> &[(String, Json)] {
        match self {
            Json::Object(members) => members,
            _ => &[],
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) | Json::Number(text) | Json::Words(text) => Some(text),
            _ => None,
        }
    }

    pub fn number(&self) -> Option<u64> {
        self.text()?.trim().parse().ok()
    }
}

/// Deepest nesting; tc's is five.
const DEEPEST: usize = 32;

/// Reads values, and knows its place.
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

type Wrong = (usize, String);

impl<'a> Reader<'a> {
    pub fn new(text: &'a str, line: usize) -> Self {
        Reader { text, at: 0, line }
    }

    pub fn at(&self) -> usize {
        self.at
    }

    pub fn line(&self) -> usize {
        self.line
    }

    pub fn wrong(&self, why: impl Into<String>) -> Wrong {
        (self.line, why.into())
    }

    fn skip_space(&mut self) {
        while let Some(c) = self.peek().filter(|c| c.is_whitespace()) {
            self.step(c);
        }
    }

    pub fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn step(&mut self, c: char) {
        self.at += c.len_utf8();
        self.line += usize::from(c == '\n');
    }

    /// Takes this character, if it is the next behind white space.
    pub fn take(&mut self, wanted: char) -> bool {
        self.skip_space();
        let is = self.peek() == Some(wanted);
        if is {
            self.step(wanted);
        }
        is
    }

    pub fn value(&mut self, depth: usize) -> Result<Json, Wrong> {
        if depth > DEEPEST {
            return Err(self.wrong(format!("the JSON is nested more than {DEEPEST} deep")));
        }
        self.skip_space();
        match self.peek() {
            None => Err(self.wrong("the JSON ends too early: was the file cut off?")),
            Some('{') => self.object(depth),
            Some('[') => self.list(depth),
            Some('"') => self.string().map(Json::Text),
            Some(_) => {
                let words = self.words();
                Ok(match words.as_str() {
                    "" => return Err(self.wrong("a value is missing in the JSON")),
                    "null" => Json::Null,
                    "true" => Json::Bool(true),
                    "false" => Json::Bool(false),
                    number if number.parse::<f64>().is_ok_and(f64::is_finite) => {
                        Json::Number(words)
                    }
                    _ => Json::Words(words),
                })
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json, Wrong> {
        let mut members = Vec::new();
        self.take('{');
        loop {
            self.skip_space();
            match self.peek() {
                Some('}') => break,
                Some(',') => {
                    self.step(',');
                    continue;
                }
                Some('"') => {
                    let name = self.string()?;
                    if !self.take(':') {
                        return Err(
                            self.wrong(format!("`:` is missing behind \"{name}\" in the JSON"))
                        );
                    }
                    members.push((name, self.value(depth + 1)?));
                }
                None => return Err(self.wrong("the JSON ends too early: was the file cut off?")),
                Some(_) => {
                    let words = self.words();
                    if words.is_empty() {
                        return Err(self.wrong("this is no JSON"));
                    }
                    members.push((String::new(), Json::Words(words)));
                }
            }
        }
        self.take('}');
        Ok(Json::Object(members))
    }

    fn list(&mut self, depth: usize) -> Result<Json, Wrong> {
        let mut items = Vec::new();
        self.take('[');
        while !self.take(']') {
            if !self.take(',') {
                items.push(self.value(depth + 1)?);
            }
        }
        Ok(Json::List(items))
    }

    fn string(&mut self) -> Result<String, Wrong> {
        self.step('"');
        let mut text = String::new();
        while let Some(c) = self.peek() {
            self.step(c);
            match c {
                '"' => return Ok(text),
                '\\' => {
                    let Some(escaped) = self.peek() else { break };
                    self.step(escaped);
                    match escaped {
                        'n' => text.push('\n'),
                        't' => text.push('\t'),
                        'r' => text.push('\r'),
                        'u' => {
                            let code = self
                                .text
                                .get(self.at..self.at + 4)
                                .and_then(|hex| u32::from_str_radix(hex, 16).ok());
                            let Some(code) = code else {
                                return Err(self.wrong("a \\u without four digits in the JSON"));
                            };
                            self.at += 4;
                            text.push(char::from_u32(code).unwrap_or('\u{fffd}'));
                        }
                        other => text.push(other),
                    }
                }
                _ => text.push(c),
            }
        }
        Err(self.wrong("a text in the JSON does not end: was the file cut off?"))
    }

    /// What stands until the next sign of JSON.
    fn words(&mut self) -> String {
        let rest = &self.text[self.at..];
        let end = rest.find(['{', '}', '[', ']', ',', '"']).unwrap_or(rest.len());
        let words = &rest[..end];
        self.at += end;
        self.line += words.matches('\n').count();
        words.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}
