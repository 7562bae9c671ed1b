//! One chart: lines, areas or a field of cells over an axis of time or of percentiles.
//!
//! Parts that stretch are SVG in the chart's own measures (seconds, things, powers of ten); words
//! are HTML beside it, placed by numbers in its style, so they keep their size on every screen and
//! on paper. The page's script reads the lines' values from the drawing itself: they are there
//! once.
//!
//! A plot knows no run and no figure by name.

use super::axis::{self, AxisTick};
use super::heat::Heat;
use super::thin::{self, Point};
use crate::{escape, figure};
use lab::series::Unit;
use std::fmt::Write;

/// Characters of a line's name, at most.
const NAME_CHARS_MAX: usize = 60;
/// Stretches that a stack of areas has.
const STACK_STRETCHES: usize = 300;

/// How a line is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stroke {
    /// As what the chart is about.
    Solid,
    /// As what it is compared with.
    Dashed,
    /// As one of many.
    Thin,
}

/// A line.
pub struct PlotLine {
    /// Its name.
    pub name: String,
    /// Which of the twelve colours.
    pub colour: usize,
    /// Stroke of the line.
    pub stroke: Stroke,
    /// Whether it is only shown when asked for.
    pub hidden: bool,
    /// Its points: (seconds or nines, value).
    pub points: Vec<Point>,
}

/// The axis that points lie over.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Across {
    /// Seconds of the run.
    Time,
    /// log10(1 / (1 - p)) of a percentile, up to this.
    Nines(f64),
}

/// How values become heights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Upwards {
    /// Evenly, from zero.
    Linear,
    /// By their powers of ten.
    Powers,
    /// One upon the other.
    Stacked,
}

/// A chart.
pub struct Plot {
    /// Its name in addresses: letters, digits and `-` only.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Description of the chart, in a sentence.
    pub about: String,
    /// Axis that it lies over.
    pub across: Across,
    /// How values become heights.
    pub upwards: Upwards,
    /// Unit of its values.
    pub unit: Unit,
    /// Whether it is counted a second.
    pub per_s: bool,
    /// The lines.
    pub lines: Vec<PlotLine>,
    /// Lines that are in the table only: the cells are drawn from them.
    pub told_only: Vec<PlotLine>,
    /// Cells below the lines.
    pub heat: Option<Heat>,
    /// Where the axis ends, when that is fixed.
    pub top: Option<f64>,
    /// Whether it takes the page's whole width.
    pub wide: bool,
    /// Whether the scenery has its words here.
    pub told: bool,
}

/// Scenery behind all charts over time.
#[derive(Default)]
pub struct Scenery {
    /// Seconds of the run.
    pub to_s: f64,
    /// Bands and marks with their words.
    pub told: String,
    /// Bands without.
    pub plain: String,
}

impl Plot {
    /// A chart over time with lines from zero.
    pub fn over_time(id: &str, title: &str, unit: Unit) -> Plot {
        Plot {
            id: id.to_owned(),
            title: title.to_owned(),
            about: String::new(),
            across: Across::Time,
            upwards: Upwards::Linear,
            unit,
            per_s: false,
            lines: Vec::new(),
            told_only: Vec::new(),
            heat: None,
            top: None,
            wide: false,
            told: false,
        }
    }

    /// The chart as a figure of HTML; each line has at most so many points.
    pub fn html(&self, scenery: &Scenery, points_max: usize) -> String {
        let drawn = self.drawn(scenery.to_s, points_max);
        let (low, high) = self.heights(&drawn);
        let wide = match self.across {
            Across::Time => scenery.to_s,
            Across::Nines(to) => to,
        };
        let mut out = String::new();
        self.head(&mut out, (wide, low, high));
        self.legend(&mut out);
        out.push_str("<div class=\"area\"><div class=\"pane\" tabindex=\"0\">");
        match (self.across, self.told) {
            (Across::Time, true) => out.push_str(&scenery.told),
            (Across::Time, false) => out.push_str(&scenery.plain),
            (Across::Nines(_), _) => {}
        }
        let ticks = match self.upwards {
            Upwards::Powers => axis::powers(self.unit, low, high),
            _ => axis::linear(self.unit, low, high),
        };
        out.push_str(&marks("ys", "--b", &ticks));
        self.svg(&mut out, &drawn, (wide, low, high));
        let ticks = match self.across {
            Across::Time => axis::time(0.0, wide),
            Across::Nines(to) => axis::nines(to),
        };
        out.push_str("<i class=\"cross\"></i></div>");
        out.push_str(&marks("xs", "--a", &ticks));
        out.push_str("</div>");
        self.table(&mut out);
        out.push_str("</figure>\n");
        out
    }

    fn head(&self, out: &mut String, (wide, low, high): (f64, f64, f64)) {
        let kind = match self.upwards {
            Upwards::Linear => "linear",
            Upwards::Powers => "powers",
            Upwards::Stacked => "stacked",
        };
        let x = if self.across == Across::Time { "time" } else { "nines" };
        let unit = unit_name(self.unit);
        let [wide, low, span] = [wide, low, high - low].map(number);
        let classes = if self.wide { "chart wide" } else { "chart" };
        let fixed = if self.heat.is_some() || self.top.is_some() { " data-fixed" } else { "" };
        let _ = write!(
            out,
            "<figure class=\"{classes}\" id=\"{}\" data-x=\"{x}\" data-y=\"{kind}\" \
             data-unit=\"{unit}\" data-per=\"{}\" data-room=\"{}\"{fixed} \
             style=\"--y0:{low};--h:{span}",
            self.id,
            if self.per_s { "/s" } else { "" },
            self.room(),
        );
        if x == "nines" {
            let _ = write!(out, ";--x0:0;--w:{wide}");
        }
        let _ = write!(out, "\"><figcaption><h4>{}</h4>", escape::html(&self.title));
        if !self.about.is_empty() {
            let _ = write!(out, "<p>{}</p>", escape::html(&self.about));
        }
        out.push_str("</figcaption>");
    }

    fn legend(&self, out: &mut String) {
        out.push_str("<div class=\"legend\">");
        for (place, line) in self.lines.iter().enumerate() {
            let _ = write!(
                out,
                "<button type=\"button\" class=\"k{} {}\" data-line=\"{place}\" \
                 aria-pressed=\"{}\"><i></i>{}<b></b></button>",
                line.colour % 12,
                line.stroke.name(),
                !line.hidden,
                escape::html_line(&line.name, NAME_CHARS_MAX),
            );
        }
        out.push_str("</div>");
    }

    fn svg(&self, out: &mut String, drawn: &[Vec<Point>], (wide, low, high): (f64, f64, f64)) {
        let [top, width, height] = [-high, wide, high - low].map(number);
        let _ = write!(
            out,
            "<svg role=\"img\" preserveAspectRatio=\"none\" viewBox=\"0 {top} {width} {height}\" \
             aria-label=\"{}\"><g transform=\"scale(1,-1)\">",
            escape::html(&self.told_in_words()),
        );
        if let Some(heat) = &self.heat {
            out.push_str(&heat.svg());
        }
        // The first line lies on top; of a stack it is the lowest, so it comes last as well.
        for place in (0..drawn.len()).rev() {
            let line = &self.lines[place];
            let kind = if self.upwards == Upwards::Stacked { "fill" } else { line.stroke.name() };
            let hidden = if line.hidden { " off" } else { "" };
            let _ = write!(
                out,
                "<path class=\"k{} {kind}{hidden}\" data-line=\"{place}\" d=\"{}\"/>",
                line.colour % 12,
                path(&drawn[place], self.gap(&drawn[place])),
            );
        }
        out.push_str("</g></svg>");
    }

    /// The points as they are drawn: fewer, as powers, or one upon the other.
    fn drawn(&self, to_s: f64, points_max: usize) -> Vec<Vec<Point>> {
        match self.upwards {
            Upwards::Linear => {
                self.lines.iter().map(|line| thin::thin(&line.points, points_max)).collect()
            }
            Upwards::Powers => {
                let power = |line: &PlotLine| {
                    let powers = line.points.iter().map(|(x, y)| (*x, y.max(1.0).log10()));
                    thin::thin(&powers.collect::<Vec<_>>(), points_max)
                };
                self.lines.iter().map(power).collect()
            }
            Upwards::Stacked => self.stacked(to_s, points_max),
        }
    }

    fn stacked(&self, to_s: f64, points_max: usize) -> Vec<Vec<Point>> {
        let rows = self.lines.iter().map(|line| line.points.len()).max().unwrap_or(0);
        let stretches = rows.min(STACK_STRETCHES).min(points_max).max(1);
        let mut floor = vec![0.0; stretches];
        let mut tops = Vec::new();
        for line in &self.lines {
            let means = thin::means(&line.points, to_s.max(0.1), stretches);
            let mut top = vec![(0.0, 0.0)];
            for (floor, (at, mean)) in floor.iter_mut().zip(means) {
                *floor += mean;
                top.push((at, *floor));
            }
            top.push((to_s, 0.0));
            tops.push(top);
        }
        tops
    }

    /// Range of the axis.
    fn heights(&self, drawn: &[Vec<Point>]) -> (f64, f64) {
        let shown = drawn.iter().zip(&self.lines).filter(|(_, line)| !line.hidden);
        let values = shown.flat_map(|(points, _)| points).map(|(_, y)| *y);
        let (low, high) = values
            .filter(|value| value.is_finite())
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), value| (l.min(value), h.max(value)));
        if let Some(top) = self.top {
            return (0.0, top);
        }
        match self.upwards {
            _ if low > high => (0.0, 1.0),
            Upwards::Powers => {
                let (low, high) = ((low - 0.08).max(0.0), high + 0.08);
                (low, high.max(low + 0.6))
            }
            _ => {
                let (low, high) = (low.min(0.0), high.max(0.0));
                (low * 1.06, if high > low { high * self.room() } else { low + 1.0 })
            }
        }
    }

    /// How much higher than its lines the chart is: words of the scenery need a place.
    fn room(&self) -> f64 {
        if self.told { 1.25 } else { 1.06 }
    }

    /// A step between two points that is none: there was nothing in between.
    fn gap(&self, points: &[Point]) -> f64 {
        if self.across != Across::Time || self.upwards == Upwards::Stacked {
            return f64::INFINITY;
        }
        let mut steps: Vec<f64> = points.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        steps.sort_unstable_by(f64::total_cmp);
        steps.get(steps.len() / 2).map_or(f64::INFINITY, |step| step * 3.0 + 1.5)
    }

    fn told_in_words(&self) -> String {
        let mut words = format!("{}.", self.title);
        for line in self.lines.iter().take(6) {
            let Some(of) = Extent::of(&line.points) else { continue };
            let [least, most, last] = [of.least, of.most, of.last].map(|value| self.value(value));
            let name = escape::line(&line.name, NAME_CHARS_MAX);
            let _ = write!(words, " {name}: {least} to {most}, at the end {last}.");
        }
        words
    }

    fn value(&self, value: f64) -> String {
        figure::of(self.unit, value) + if self.per_s { "/s" } else { "" }
    }

    /// Writes the lines' figures as a table.
    fn table(&self, out: &mut String) {
        out.push_str(
            "<details class=\"figures\"><summary>Figures</summary><table><thead><tr>\
             <th>line</th><th class=\"n\">least</th><th class=\"n\">mean</th>\
             <th class=\"n\">most</th><th class=\"n\">at</th><th class=\"n\">at the end</th>\
             </tr></thead><tbody>",
        );
        for line in self.lines.iter().chain(&self.told_only) {
            let Some(of) = Extent::of(&line.points) else { continue };
            let [least, mean, most, last] =
                [of.least, of.mean, of.most, of.last].map(|value| self.value(value));
            let at = match self.across {
                Across::Time => figure::clock((of.most_at * 1_000.0) as u64),
                Across::Nines(_) => percentile(of.most_at),
            };
            let name = escape::html_line(&line.name, NAME_CHARS_MAX);
            let _ = write!(
                out,
                "<tr><th>{name}</th><td>{least}</td><td>{mean}</td><td>{most}</td><td>{at}</td>\
                 <td>{last}</td></tr>"
            );
        }
        out.push_str("</tbody></table></details>");
    }
}

impl Stroke {
    const fn name(self) -> &'static str {
        match self {
            Stroke::Solid => "solid",
            Stroke::Dashed => "dashed",
            Stroke::Thin => "thin",
        }
    }
}

/// Extent of a line.
struct Extent {
    least: f64,
    mean: f64,
    most: f64,
    most_at: f64,
    last: f64,
}

impl Extent {
    fn of(points: &[Point]) -> Option<Extent> {
        let most = points.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let least = points.iter().map(|point| point.1).min_by(f64::total_cmp)?;
        let mean = points.iter().map(|point| point.1).sum::<f64>() / points.len() as f64;
        Some(Extent { least, mean, most: most.1, most_at: most.0, last: points.last()?.1 })
    }
}

/// A percentile whose log10(1 / (1 - p)) this is.
pub fn percentile(nines: f64) -> String {
    let percent = 100.0 - 100.0 / 10_f64.powf(nines);
    let places = (nines.floor() as usize).saturating_sub(1).clamp(0, 7);
    format!("{percent:.places$} %")
}

fn marks(class: &str, place: &str, ticks: &[AxisTick]) -> String {
    let mut out = format!("<div class=\"{class}\" aria-hidden=\"true\">");
    for (at, words) in ticks {
        let _ = write!(out, "<i style=\"{place}:{}\"><u>{words}</u></i>", number(*at));
    }
    out + "</div>"
}

/// The points as a path: a new beginning after each gap. A point that is alone is there twice, for
/// a line of no length with round ends is a dot.
fn path(points: &[Point], gap: f64) -> String {
    let mut out = String::with_capacity(points.len() * 12);
    let points: Vec<Point> = points.iter().copied().filter(|(_, y)| y.is_finite()).collect();
    let parted = |at: usize| at == 0 || points[at].0 - points[at - 1].0 > gap;
    for (at, (x, y)) in points.iter().enumerate() {
        let point = format!("{} {}", number((x * 100.0).round() / 100.0), number(*y));
        out.push_str(if parted(at) { "M" } else { " " });
        out.push_str(&point);
        if parted(at) && (at + 1 == points.len() || parted(at + 1)) {
            out.extend([" ", &point]);
        }
    }
    out
}

/// A number with seven digits that matter, as short as it can be.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let before = value.abs().log10().floor() as i32;
    let places = (6 - before).clamp(0, 9) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// The word that the script knows a unit by.
fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "count",
        Unit::Bytes => "bytes",
        Unit::Micros => "micros",
        Unit::Share => "share",
        Unit::Seconds => "seconds",
    }
}

#[cfg(test)]
mod tests;
