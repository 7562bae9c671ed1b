//! Two runs, or two sets of runs, side by side: what the judge says and the report draws.

/// Comparison of two sets of runs.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Comparison {
    /// Names of the two sides.
    pub names: [String; 2],
    /// Differences between the two that may explain the figures: plan, target, machine, agents,
    /// runs that did not end or cannot be trusted.
    pub differs: Vec<String>,
    /// Whether figures were compared; not when the plans differ and nobody asked for it.
    pub compared: bool,
    /// Figures, the most important first.
    pub rows: Vec<ComparisonRow>,
    /// The comparison in a few sentences.
    pub summary: String,
}

/// One figure of both.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct ComparisonRow {
    /// Its name, as in rules; of a stage with the stage's name before it: `hold: bind.p99`.
    pub figure: String,
    /// Meaning of the figure.
    pub meaning: String,
    /// Value on each side: microseconds, bytes, shares or plain numbers.
    pub values: [f64; 2],
    /// Values for people, with units.
    pub shown: [String; 2],
    /// Difference of the second from the first, as a share of the first; `None`: the first is
    /// nothing.
    pub change: Option<f64>,
    /// In what interval the difference (second less first) lies with 95 % confidence; `None`: too
    /// little was measured to tell.
    pub interval: Option<Interval>,
    /// Judgement of the difference.
    pub better: Better,
    /// Method by which the interval was computed.
    pub method: String,
}

/// An interval that something lies in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// Which of two is better.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Better {
    /// The second is worse.
    Worse,
    /// The second is better.
    Better,
    /// The two differ, and neither is better: it was planned so, or is a matter of taste.
    Differs,
    /// No difference can be shown.
    #[default]
    NoDifference,
}

impl Better {
    /// The words in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Better::Worse => "worse",
            Better::Better => "better",
            Better::Differs => "different",
            Better::NoDifference => "no difference",
        }
    }
}
