//! The beta distribution, and what follows from it: Student's t.

use std::sync::LazyLock;

/// The part of a beta distribution below `x`: the regularised incomplete beta function, by Lentz's continued fraction (Press et al.,
/// Numerical Recipes, section 6.4). `a` and `b` are above 0.
pub(crate) fn below(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - below(1.0 - x, b, a);
    }
    const TINY: f64 = 1e-300;
    let safe = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / safe(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..10_000 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = fraction;
        for step in [even, odd] {
            d = 1.0 / safe(1.0 + step * d);
            c = safe(1.0 + step / c);
            fraction *= c * d;
        }
        if (fraction - before).abs() <= 1e-15 * fraction.abs() {
            break;
        }
    }
    let front = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p();
    (front.exp() * fraction / a).clamp(0.0, 1.0)
}

/// The quantile at `p` of a beta distribution with `a` and `b` above 0, by halving.
pub(crate) fn quantile(p: f64, a: f64, b: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0_f64);
    // Values of a few packets in a million are looked for: precision counts relative to the value.
    while high - low > 1e-12 * high && high > 1e-30 {
        let middle = 0.5 * (low + high);
        if below(middle, a, b) < p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// The part of the cases beyond either end of a 95 % interval.
pub const TAIL: f64 = 0.025;

/// Where Student's t with so many degrees of freedom, at least 1, has this part of its cases above it.
pub(crate) fn student(freedom: usize, tail: f64) -> f64 {
    /// What is asked for most often.
    static FEW: LazyLock<[f64; 64]> =
        LazyLock::new(|| std::array::from_fn(|i| calculated((i + 1) as f64, TAIL)));
    let known = freedom.checked_sub(1).and_then(|i| FEW.get(i).copied());
    known.filter(|_| tail == TAIL).unwrap_or_else(|| calculated(freedom as f64, tail))
}

/// The same of degrees of freedom that need not be whole.
pub(crate) fn calculated(freedom: f64, tail: f64) -> f64 {
    // t² ÷ (t² + n) is beta with 1/2 and n/2; the other side of it keeps its precision where n is large.
    let rest = quantile(2.0 * tail, freedom / 2.0, 0.5);
    (freedom * (1.0 - rest) / rest).sqrt()
}

/// Lanczos' approximation (1964), to 15 digits, of values above 0.
fn ln_gamma(x: f64) -> f64 {
    const G: f64 = 7.0;
    const C: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        let pi = std::f64::consts::PI;
        return (pi / (pi * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let sum = (1..9).fold(C[0], |sum, i| sum + C[i] / (x + i as f64));
    let t = x + G + 0.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_points_are_those_of_the_tables() {
        let table = [
            (1, 12.706),
            (2, 4.303),
            (3, 3.182),
            (8, 2.306),
            (9, 2.262),
            (30, 2.042),
            (1000, 1.962),
        ];
        for (freedom, t) in table {
            let found = student(freedom, TAIL);
            assert!((found - t).abs() < 6e-4, "{freedom}: {found}");
        }
        for (freedom, tail, t) in [(2, 0.005, 9.925), (4, 0.0005, 8.610), (30, 0.005, 2.750)] {
            let found = student(freedom, tail);
            assert!((found - t).abs() < 6e-4, "{freedom}, {tail}: {found}");
        }
    }

    #[test]
    fn quantiles_are_where_the_distribution_says() {
        // Even between 0 and 1 with (1, 1); the smallest of n even numbers with (1, n).
        assert!((quantile(0.3, 1.0, 1.0) - 0.3).abs() < 1e-11);
        let n = 5000.0;
        let smallest = 1.0 - 0.025_f64.powf(1.0 / n);
        assert!((quantile(0.975, 1.0, n) - smallest).abs() < 1e-9);
        for (a, b) in [(0.5, 9.0), (3.0, 1e6), (40.0, 2.5)] {
            assert!((below(quantile(0.9, a, b), a, b) - 0.9).abs() < 1e-9, "{a} {b}");
        }
    }
}
