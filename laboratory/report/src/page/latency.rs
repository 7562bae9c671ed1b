//! The charts of times: over the run, and as whole distributions.

use super::heat::Heat;
use super::plot::{Across, Plot, PlotLine, Stroke, Upwards};
use super::source::{self, FigureSource};
use super::thin::Point;
use lab::run::Run;
use lab::series::Unit;
use lab::timing::{Spectrum, Timing};

/// Columns and rows that a field of times has, at most.
const COLUMNS_MAX: usize = 120;
const ROWS: usize = 40;
/// Stages that have a curve of their own, at most.
const STAGES_MAX: usize = 10;
/// Points of a curve for one more nine, and nines at most.
const POINTS_A_NINE: usize = 24;
const NINES_MAX: f64 = 7.0;
/// Where a curve begins: at 11 %. The part below says little and would take half the height.
const FIRST_NINES: f64 = 0.05;

/// One chart a timing: percentiles of each second, over where the times lay.
pub fn over_time(source: &FigureSource, run: &Run) -> Vec<Plot> {
    let mut plots = Vec::new();
    for &timing in Timing::ALL {
        let name = timing.name();
        let [p50, p99, max, raw] = ["p50", "p99", "max", "raw_p99"]
            .map(|point| source.points(&format!("clients.{name}.{point}")));
        if p50.is_empty() && max.is_empty() {
            continue;
        }
        let mut plot = Plot::over_time(&format!("c-time-{name}"), &heading(timing), Unit::Micros);
        plot.about = format!(
            "{} Percentiles of each second; darker is where more of the times lay, estimated from \
             them.",
            timing.meaning()
        );
        plot.upwards = Upwards::Powers;
        plot.wide = timing == Timing::Bind;
        let last = p50.last().map_or(0.0, |point| point.0);
        plot.heat = field(&p50, &p99, &max, last.max(run.took_ms as f64 / 1_000.0));
        plot.lines = vec![source::line("half within", 0, p50), source::line("99 % within", 1, p99)];
        plot.lines.push(PlotLine { stroke: Stroke::Thin, ..source::line("longest", 7, max) });
        let raw_differs = plot.lines[1].points != raw;
        if raw_differs {
            let stroke = Stroke::Dashed;
            plot.lines.push(PlotLine { stroke, ..source::line("99 % within, raw", 2, raw) });
        }
        plot.lines.retain(|line| !line.points.is_empty());
        plots.push(plot);
    }
    plots
}

/// A timing's name as a heading.
fn heading(timing: Timing) -> String {
    let mut name = timing.name().to_owned();
    name[..1].make_ascii_uppercase();
    name
}

/// Where the times lay, as far as three percentiles of each second tell: between them one more nine
/// is taken to be the same factor each, as it is in tails, and below half of them to mirror it.
fn field(p50: &[Point], p99: &[Point], max: &[Point], to_s: f64) -> Option<Heat> {
    let power = |us: f64| us.max(1.0).log10();
    let low = p50.iter().map(|point| power(point.1)).fold(f64::INFINITY, f64::min) - 0.5;
    let high = max.iter().map(|point| power(point.1)).fold(f64::NEG_INFINITY, f64::max);
    if low >= high || to_s <= 0.0 || p50.len() != p99.len() || p50.len() != max.len() {
        return None;
    }
    let low = low.max(0.0);
    let columns = COLUMNS_MAX.min(to_s.ceil() as usize).max(1);
    let (wide, tall) = (to_s / columns as f64, (high - low).max(0.3) / ROWS as f64);
    let mut cells = vec![vec![0.0; ROWS]; columns];
    for ((half, most), all) in p50.iter().zip(p99).zip(max) {
        let column = &mut cells[((half.0 / wide) as usize).min(columns - 1)];
        let points = [half.1, most.1, all.1].map(power);
        let edge = |row: usize| below(low + row as f64 * tall, points);
        for (row, cell) in column.iter_mut().enumerate() {
            *cell += edge(row + 1) - edge(row);
        }
    }
    for column in &mut cells {
        let sum: f64 = column.iter().sum();
        // The longest must be seen: shades go by powers of ten, from 1 in 10,000.
        for cell in column.iter_mut().filter(|cell| **cell > 0.0) {
            *cell = ((*cell / sum).log10() / 4.0 + 1.0).clamp(0.0, 1.0);
        }
    }
    Some(Heat { cell: (wide, tall), y_from: low, columns: cells })
}

/// The share of times that are below a power of ten, by the powers of p50, p99 and the longest.
fn below(power: f64, [half, most, all]: [f64; 3]) -> f64 {
    let fifty = 2_f64.log10();
    let a_nine = ((most - half) / (2.0 - fifty)).max(0.02);
    let tail = ((all - most) / 1.5).max(0.02);
    if power >= all.max(most) {
        1.0
    } else if power >= most {
        1.0 - 10_f64.powf(-2.0 - (power - most) / tail)
    } else if power >= half {
        1.0 - 10_f64.powf(-fifty - (power - half) / a_nine)
    } else {
        0.5 * 10_f64.powf((power - half) / (a_nine * 0.6))
    }
}

/// One chart a timing: its whole distribution, of the run and of its stages.
pub fn curves(run: &Run) -> Vec<Plot> {
    let mut plots = Vec::new();
    for (timing, timed) in run.total.timings.iter() {
        let id = format!("c-curve-{}", timing.name());
        let mut plot = Plot::over_time(&id, &heading(timing), Unit::Micros);
        plot.about = timing.meaning().to_owned();
        plot.upwards = Upwards::Powers;
        let solid = source::line("corrected", 0, curve(&timed.corrected));
        plot.lines.push(solid);
        if timed.corrected != timed.raw {
            let raw = source::line("raw", 1, curve(&timed.raw));
            plot.lines.push(PlotLine { stroke: Stroke::Dashed, ..raw });
        }
        let of_stages: Vec<_> =
            run.stages.iter().map(|stage| stage.counts.timings.of(timing)).collect();
        let with: Vec<usize> =
            (0..of_stages.len()).filter(|&place| !of_stages[place].raw.is_empty()).collect();
        if with.len() > 1 {
            for (nth, place) in chosen(&with, STAGES_MAX).into_iter().enumerate() {
                let points = curve(&of_stages[place].corrected);
                let line = source::line(&run.stages[place].name, 2 + nth % 10, points);
                plot.lines.push(PlotLine { stroke: Stroke::Thin, ..line });
            }
        }
        let ends = plot.lines.iter().filter_map(|line| line.points.last());
        let to = ends.map(|point| point.0).fold(1.0, f64::max);
        plot.across = Across::Nines(to);
        plots.push(plot);
    }
    plots
}

/// At most so many of these places, evenly from the first to the last.
fn chosen(places: &[usize], most: usize) -> Vec<usize> {
    if places.len() <= most {
        return places.to_vec();
    }
    (0..most).map(|nth| places[nth * (places.len() - 1) / (most - 1)]).collect()
}

/// The times by log10(1 / (1 - p)).
fn curve(spectrum: &Spectrum) -> Vec<Point> {
    if spectrum.is_empty() {
        return Vec::new();
    }
    let to = (spectrum.count() as f64).log10().clamp(0.3, NINES_MAX);
    let points = ((to - FIRST_NINES) * POINTS_A_NINE as f64).ceil() as usize;
    let at = |point: usize| {
        let nines = (FIRST_NINES + point as f64 / POINTS_A_NINE as f64).min(to);
        let percent = 100.0 * (1.0 - 10_f64.powf(-nines));
        let us = if point == points { spectrum.max() } else { spectrum.at(percent) };
        (nines, us as f64)
    };
    (0..=points).map(at).collect()
}
