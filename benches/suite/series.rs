//! Contenders in turn, and the medians of their rounds.

use crate::process::Took;

/// The rounds of one contender, each with its count of operations.
#[derive(Clone, Debug, Default)]
pub struct Series {
    rates: Vec<f64>,
    cpu: Vec<f64>,
}

impl Series {
    /// The rounds of one contender, each of so many operations.
    pub fn of(runs: impl IntoIterator<Item = Took>, operations: f64) -> Self {
        let mut series = Self::default();
        for took in runs {
            series.rates.push(operations / took.seconds);
            series.cpu.push(took.cpu * 1e6 / operations);
        }
        series
    }

    /// Operations a second.
    pub fn rate(&self) -> f64 {
        median(&self.rates)
    }

    /// Processor time of an operation, in microseconds.
    pub fn cpu(&self) -> f64 {
        median(&self.cpu)
    }

    /// How its rate stands to another's, as the median of the rounds: a slow minute slows both.
    pub fn ratio_to(&self, other: &Self) -> f64 {
        let ratios: Vec<f64> = self.rates.iter().zip(&other.rates).map(|(a, b)| a / b).collect();
        median(&ratios)
    }

    /// The same of its processor time.
    pub fn cpu_ratio_to(&self, other: &Self) -> f64 {
        let ratios: Vec<f64> = self.cpu.iter().zip(&other.cpu).map(|(a, b)| a / b).collect();
        median(&ratios)
    }
}

/// Runs each contender once a round, in turn.
pub fn interleave<C, T>(rounds: usize, contenders: &[C], mut run: impl FnMut(&C) -> T) -> Vec<Vec<T>> {
    let mut all: Vec<Vec<T>> = contenders.iter().map(|_| Vec::new()).collect();
    for _ in 0..rounds {
        for (contender, runs) in contenders.iter().zip(&mut all) {
            runs.push(run(contender));
        }
    }
    all
}

pub fn median(figures: &[f64]) -> f64 {
    quantile(figures, 0.5)
}

/// The figure below which that part of them lies.
pub fn quantile(figures: &[f64], part: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() as f64 * part) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
