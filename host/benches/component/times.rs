//! What many times come to.

use std::fmt;

/// How one contestant compares with another over the rounds of a run.
pub struct Ratio {
    low: f64,
    pub median: f64,
    high: f64,
}

impl Ratio {
    /// Round by round, the first times over the second ones.
    pub fn of(over: &[f64], under: &[f64]) -> Self {
        let ratios: Vec<f64> = over.iter().zip(under).map(|(over, under)| over / under).collect();
        Self { low: ranked(&ratios, 10), median: median(&ratios), high: ranked(&ratios, 90) }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.median, self.low, self.high)
    }
}

pub fn median(all: &[f64]) -> f64 {
    ranked(all, 50)
}

/// What so many per cent are below.
fn ranked(all: &[f64], percentile: usize) -> f64 {
    let mut sorted = all.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[sorted.len() * percentile / 100]
}
