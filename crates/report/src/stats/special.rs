//! Student's t distribution, needed for a handful of replicates. From the regularised incomplete beta
//! function by its continued fraction (DLMF 8.17.22, evaluated by the modified Lentz method).

/// Probability that |T| with `df` degrees of freedom exceeds |t|.
pub fn student_two_sided(t: f64, df: f64) -> f64 {
    if t.is_infinite() {
        return 0.0;
    }
    incomplete_beta(df / (df + t * t), df / 2.0, 0.5)
}

/// The t with `student_two_sided(t, df) == alpha`: 2.776 for 0.05 and 4 degrees of freedom.
pub fn student_quantile(alpha: f64, df: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while student_two_sided(high, df) > alpha && high < 1e15 {
        high *= 2.0;
    }
    // Bisection to the last bit: at most about a hundred evaluations, and no derivative.
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return middle;
        }
        if student_two_sided(middle, df) > alpha {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// Regularised incomplete beta function I_x(a, b).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    // The fraction converges fast only below the mean; above it, the symmetry turns it round.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let scale = libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b)
        + a * libm::log(x)
        + b * libm::log(1.0 - x);
    libm::exp(scale) * beta_fraction(x, a, b) / a
}

fn beta_fraction(x: f64, a: f64, b: f64) -> f64 {
    let nudge = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let mut d = 1.0 / nudge(1.0 - (a + b) * x / (a + 1.0));
    let (mut c, mut value) = (1.0, d);
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut step = 1.0;
        for term in [even, odd] {
            d = 1.0 / nudge(1.0 + term * d);
            c = nudge(1.0 + term / c);
            step = c * d;
            value *= step;
        }
        if (step - 1.0).abs() < 1e-15 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_agree_with_tables() {
        // scipy.stats.t.ppf(0.975, df)
        let table = [
            (1.0, 12.706_204_736_432_095),
            (2.0, 4.302_652_729_911_275),
            (4.0, 2.776_445_105_197_799),
            (9.0, 2.262_157_162_740_992),
            (30.0, 2.042_272_456_301_238),
        ];
        for (df, expected) in table {
            let found = student_quantile(0.05, df);
            assert!(
                (found - expected).abs() < 1e-9,
                "{df}: {found} instead of {expected}"
            );
        }
    }

    #[test]
    fn tails_have_closed_forms_for_one_and_two_degrees() {
        for t in [0.0, 0.3, 1.0, 4.0, 50.0] {
            let one = 1.0 - 2.0 / std::f64::consts::PI * libm::atan(t);
            let two = 1.0 - t / libm::sqrt(2.0 + t * t);
            assert!((student_two_sided(t, 1.0) - one).abs() < 1e-12, "{t}");
            assert!((student_two_sided(t, 2.0) - two).abs() < 1e-12, "{t}");
        }
        assert_eq!(student_two_sided(f64::INFINITY, 3.0), 0.0);
    }
}
