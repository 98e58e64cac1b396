//! Values as a pickle makes them: each is stored once and has a number, so that a value that is named many times takes its room once.

use crate::PickleError;

/// The number of a value.
pub(crate) type Id = u32;

/// A value; what it contains is given by numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(String),
    Tuple(Vec<Id>),
    List(Vec<Id>),
    Dict(Vec<(Id, Id)>),
}

impl Value {
    /// What it is, for a person.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Value::None => "None",
            Value::Bool(_) => "a truth value",
            Value::Int(_) => "a whole number",
            Value::Float(_) => "a number",
            Value::Text(_) => "a text",
            Value::Tuple(_) => "a tuple",
            Value::List(_) => "a list",
            Value::Dict(_) => "a dictionary",
        }
    }

    /// The number at `index` among what it contains; keys and values of a dictionary take turns.
    fn child(&self, index: usize) -> Option<Id> {
        match self {
            Value::Tuple(items) | Value::List(items) => items.get(index).copied(),
            Value::Dict(pairs) => {
                let (key, value) = pairs.get(index / 2)?;
                Some(if index.is_multiple_of(2) { *key } else { *value })
            }
            _ => None,
        }
    }
}

/// All values of a pickle.
#[derive(Debug, Default)]
pub(crate) struct Values(Vec<Value>);

impl Values {
    /// Stores a value. There are fewer than there are bytes in the file, so that the number fits.
    pub(crate) fn add(&mut self, value: Value) -> Id {
        let id = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        self.0.push(value);
        id
    }

    /// The value with this number; all numbers come from [`Values::add`].
    pub(crate) fn get(&self, id: Id) -> &Value {
        self.0.get(id as usize).unwrap_or(&Value::None)
    }

    /// The value with this number, to add to it.
    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut Value> {
        self.0.get_mut(id as usize)
    }

    /// Refuses circles, and depths beyond `most`, in what `root` contains. Each value is visited once, however often it is named.
    pub(crate) fn check_shape(&self, root: Id, most: u32) -> Result<(), PickleError> {
        #[derive(Clone, Copy, PartialEq)]
        enum Seen {
            Never,
            Open,
            Depth(u32),
        }
        let mut seen = vec![Seen::Never; self.0.len()];
        let mut path: Vec<(Id, usize, u32)> = vec![(root, 0, 0)];
        while let Some((id, next, deepest)) = path.last_mut() {
            let Some(state) = seen.get_mut(*id as usize) else { break };
            *state = Seen::Open;
            match self.get(*id).child(*next) {
                Some(child) => {
                    *next += 1;
                    match seen.get(child as usize) {
                        Some(Seen::Open) => return Err(PickleError::Circular),
                        Some(Seen::Depth(depth)) => *deepest = (*deepest).max(*depth + 1),
                        Some(Seen::Never) => path.push((child, 0, 0)),
                        None => {}
                    }
                }
                None => {
                    let depth = *deepest;
                    if depth > most {
                        return Err(PickleError::TooDeep);
                    }
                    *state = Seen::Depth(depth);
                    path.pop();
                    if let Some((_, _, above)) = path.last_mut() {
                        *above = (*above).max(depth + 1);
                    }
                }
            }
        }
        Ok(())
    }
}
