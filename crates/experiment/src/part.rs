//! A run in parts, one a machine: `3/10` is the third of ten.
//!
//! ```text
//!   names of all cells ──hash──► an order that nobody chose ──dealt in turn──► parts of equal size, each with cells of all kinds
//! ```
//!
//! A cell has the seed of its name, so that it is the same in whichever part it is dealt.

use quell_lab::cell::CellPlan;
use quell_model::manifest::RunPart;
use quell_stats::Rng;
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartNumber {
    /// From 1.
    number: u32,
    of: u32,
}

impl FromStr for PartNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read =
            text.split_once('/').and_then(|(n, of)| Some((n.parse().ok()?, of.parse().ok()?)));
        match read {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err("a part is 1/10, 2/10 … up to 10/10".to_owned()),
        }
    }
}

impl PartNumber {
    /// Leaves of these plans those of this part, and tells what that is.
    ///
    /// # Errors
    /// When there are more parts than plans: one would be empty.
    pub fn deal(self, plans: &mut Vec<CellPlan>) -> Result<RunPart, String> {
        let (number, of, whole) = (self.number, self.of, plans.len());
        most_parts(of, whole)?;
        let dealer = Rng::new(0);
        let hash = |text: &str| dealer.derive(text).u64();
        let text = serde_json::to_string(plans).map_err(|e| e.to_string())?;
        let mut order: Vec<(u64, usize)> =
            plans.iter().enumerate().map(|(at, plan)| (hash(&plan.id.to_string()), at)).collect();
        order.sort_unstable();
        let dealt = order.iter().skip(number as usize - 1).step_by(of as usize);
        let mut places: Vec<usize> = dealt.map(|(_, at)| *at).collect();
        places.sort_unstable();
        let mut at = 0..;
        plans.retain(|_| at.next().is_some_and(|at| places.binary_search(&at).is_ok()));
        Ok(RunPart {
            number,
            of,
            whole: whole as u64,
            places: places.into_iter().map(|at| at as u64).collect(),
            plans: format!("{:016x}", hash(&text)),
        })
    }
}

/// Refuses more parts than there are measurements.
pub fn most_parts(parts: u32, measurements: usize) -> Result<(), String> {
    match parts as usize <= measurements {
        true => Ok(()),
        false => Err(format!(
            "{measurements} measurements can't be dealt in {parts} parts; at most {measurements}"
        )),
    }
}
