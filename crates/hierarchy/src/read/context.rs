//! Commands between outputs: what they say of the output below them.

/// What a command's line said of the output below it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Context {
    pub device: Option<String>,
    pub parent: Option<String>,
    /// Whether filters were asked for.
    pub filters: bool,
}

/// A command's line, with or without a prompt: `+ tc -s class show dev eth0`.
pub(crate) fn command(line: &str) -> Option<Context> {
    let words: Vec<&str> = line.split_whitespace().take(40).collect();
    let at = words.iter().position(|word| *word == "tc" || word.ends_with("/tc"))?;
    let mut rest = words[at + 1..].iter().copied().skip_while(|word| word.starts_with('-'));
    let object = rest.next()?;
    if !["qdisc", "class", "filter"].iter().any(|name| object.len() > 1 && name.starts_with(object))
    {
        return None;
    }
    let filters = object.starts_with('f');
    let mut context = Context { filters, ..Context::default() };
    while let Some(word) = rest.next() {
        match word {
            "dev" => context.device = rest.next().map(str::to_owned),
            "parent" => context.parent = rest.next().map(str::to_owned),
            "ingress" | "egress" | "root" => context.parent = Some(word.to_owned()),
            _ => {}
        }
    }
    Some(context)
}
