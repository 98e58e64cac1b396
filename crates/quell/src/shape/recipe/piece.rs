//! What is wanted there, and what to paste for it.

use quell_tc::qdisc::Cake;
use quell_tc::{Qdisc, Tree};

/// What is wanted there.
pub struct Wish {
    pub device: String,
    pub ifb: String,
    /// The queue of what leaves, and on the way in what leads to the IFB.
    pub own: Tree,
    /// The queue of what comes.
    pub beyond: Option<Tree>,
}

/// One text to paste, with the file that it belongs into.
pub struct Piece {
    pub place: String,
    pub text: String,
}

/// All of them, and what there is to say.
pub struct Recipe {
    pub pieces: Vec<Piece>,
    pub said: Vec<String>,
}

/// CAKE at the root of a tree.
pub fn cake(tree: &Tree) -> Option<&Cake> {
    match tree.queue.as_ref().map(|queue| &queue.qdisc) {
        Some(Qdisc::Cake(cake)) => Some(cake),
        _ => None,
    }
}
