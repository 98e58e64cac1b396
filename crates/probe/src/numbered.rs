//! Answers with and without the reflector's number of what it received. Pure.
//!
//! A reflector that gives numbers, and now and then none, had no room to count, or left packets of this session unanswered shortly before
//! ([`sessions`](crate::sessions)): `quell serve` does beyond its `--max-rate`. Those packets have no answer, and were lost on no way.

use quell_model::EchoSample;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Numbered {
    with: u64,
    without: u64,
}

impl Numbered {
    pub fn take(&mut self, sample: &EchoSample) {
        match sample.up_order {
            _ if !sample.status.is_answered() => {}
            Some(_) => self.with += 1,
            None => self.without += 1,
        }
    }

    pub fn gaps(&self) -> u64 {
        if self.with > 0 { self.without } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_model::EchoStatus;

    #[test]
    fn only_a_reflector_that_gives_numbers_leaves_some_out() {
        let told = |numbers: &[Option<u64>], status| {
            let mut numbered = Numbered::default();
            for (n, up_order) in (0..).zip(numbers) {
                let sample = EchoSample::new(0, n, 64, status);
                numbered.take(&EchoSample { up_order: *up_order, ..sample });
            }
            numbered.gaps()
        };
        assert_eq!(told(&[Some(0), None, None, Some(0)], EchoStatus::Ok), 2);
        assert_eq!(told(&[None, None], EchoStatus::Ok), 0, "it never counts");
        assert_eq!(told(&[Some(0), None], EchoStatus::Lost), 0, "nothing came back");
    }
}
