//! A chart's drawing by example: where lines begin, break and end, and how high it is.

use super::*;

fn line(name: &str, points: &[Point]) -> PlotLine {
    let points = points.to_vec();
    PlotLine { name: name.to_owned(), colour: 13, stroke: Stroke::Solid, hidden: false, points }
}

fn plot(lines: Vec<PlotLine>) -> Plot {
    Plot { lines, ..Plot::over_time("c-x", "Things", Unit::Count) }
}

#[test]
fn a_line_breaks_at_a_gap_and_a_lone_point_is_drawn() {
    let points = [(0.0, 1.0), (1.0, 2.0), (5.0, 3.0), (9.126, f64::NAN), (9.126, 4.0), (10.0, 5.0)];
    assert_eq!(path(&points, 4.0), "M0 1 1 2 5 3M9.13 4 10 5");
    assert_eq!(path(&points, 3.0), "M0 1 1 2M5 3 5 3M9.13 4 10 5");
    assert_eq!(path(&points, f64::INFINITY), "M0 1 1 2 5 3 9.13 4 10 5");
    assert_eq!((path(&points[..1], 1.0), path(&[], 1.0)), ("M0 1 0 1".into(), String::new()));
    let every_second: Vec<Point> = (0..5).map(|at| (f64::from(at), 1.0)).collect();
    assert_eq!(plot(Vec::new()).gap(&every_second), 4.5);
    assert_eq!(plot(Vec::new()).gap(&every_second[..1]), f64::INFINITY);
    let stacked = Plot { upwards: Upwards::Stacked, ..plot(Vec::new()) };
    assert_eq!(stacked.gap(&every_second), f64::INFINITY);
    let curve = Plot { across: Across::Nines(3.0), ..plot(Vec::new()) };
    assert_eq!(curve.gap(&every_second), f64::INFINITY);
}

#[test]
fn a_chart_is_as_high_as_what_it_shows_and_a_little_higher() {
    let heights = |plot: &Plot| {
        let (low, high) = plot.heights(&plot.drawn(10.0, 100));
        format!("{} to {}", number(low), number(high))
    };
    let of = |values: &[f64]| {
        let points: Vec<Point> = values.iter().map(|value| (0.0, *value)).collect();
        plot(vec![line("a", &points)])
    };
    assert_eq!(heights(&of(&[5.0, 10.0])), "0 to 10.6");
    assert_eq!(heights(&of(&[-10.0, -5.0])), "-10.6 to 0");
    assert_eq!(heights(&of(&[0.0])), "0 to 1");
    assert_eq!(heights(&of(&[f64::NAN])), "0 to 1");
    assert_eq!(heights(&Plot { told: true, ..of(&[8.0]) }), "0 to 10");
    assert_eq!(heights(&Plot { top: Some(4.0), ..of(&[8.0]) }), "0 to 4");
    let mut two = of(&[5.0]);
    two.lines.push(PlotLine { hidden: true, ..line("b", &[(0.0, 100.0)]) });
    assert_eq!(heights(&two), "0 to 5.3", "what is hidden takes no room");
    let powers = |values: &[f64]| heights(&Plot { upwards: Upwards::Powers, ..of(values) });
    assert_eq!(powers(&[1_000.0, 100_000.0]), "2.92 to 5.08");
    assert_eq!(powers(&[0.0, 1.0]), "0 to 0.6");
}

#[test]
fn what_is_stacked_stands_on_what_is_below() {
    let low = line("low", &[(1.0, 2.0), (6.0, 4.0)]);
    let high = line("high", &[(1.0, 3.0), (6.0, 1.0)]);
    let stacked = Plot { upwards: Upwards::Stacked, ..plot(vec![low, high]) };
    let [low, high] = &*stacked.drawn(10.0, 100) else { panic!("two lines") };
    assert_eq!(low[..], [(0.0, 0.0), (2.5, 2.0), (7.5, 4.0), (10.0, 0.0)]);
    assert_eq!(high[..], [(0.0, 0.0), (2.5, 5.0), (7.5, 5.0), (10.0, 0.0)]);
    assert_eq!(stacked.drawn(10.0, 1)[0].len(), 3);
}

#[test]
fn a_chart_is_told_by_its_figures_and_its_drawing() {
    let mut plot = plot(vec![line("a<b", &[(0.0, 4.0), (61.0, 9.0), (62.0, 2.0)])]);
    plot.per_s = true;
    assert_eq!(plot.told_in_words(), "Things. a<b: 2/s to 9/s, at the end 2/s.");
    let scenery = Scenery { to_s: 100.0, told: "<told>".into(), plain: "<plain>".into() };
    let html = plot.html(&scenery, 100);
    for part in [
        "class=\"chart\" id=\"c-x\" data-x=\"time\" data-y=\"linear\"",
        "data-unit=\"count\" data-per=\"/s\"",
        "data-room=\"1.06\" style=\"--y0:0;--h:9.54\">",
        "class=\"k1 solid\" data-line=\"0\" aria-pressed=\"true\"><i></i>a&lt;b<b>",
        "viewBox=\"0 -9.54 100 9.54\"",
        "<path class=\"k1 solid\" data-line=\"0\" d=\"M0 4 61 9 62 2\"/>",
        "<tr><th>a&lt;b</th><td>2/s</td><td>5/s</td><td>9/s</td><td>1:01</td><td>2/s</td></tr>",
        "<plain>",
    ] {
        assert!(html.contains(part), "{part}\n{html}");
    }
    assert!(
        !html.contains("<told>")
            && !html.contains("data-fixed")
            && !html.contains("<figcaption><h4>Things</h4><p>")
    );
    plot.lines[0].hidden = true;
    (plot.told, plot.wide, plot.top, plot.about) = (true, true, Some(20.0), "Why.".into());
    let html = plot.html(&scenery, 100);
    for part in [
        "class=\"chart wide\"",
        " data-fixed style",
        "data-room=\"1.25\"",
        "<h4>Things</h4><p>Why.</p>",
        "<told>",
        "aria-pressed=\"false\"",
        "class=\"k1 solid off\"",
    ] {
        assert!(html.contains(part), "{part}\n{html}");
    }
    let curve = Plot { across: Across::Nines(3.0), upwards: Upwards::Powers, ..plot };
    let html = curve.html(&scenery, 100);
    assert!(html.contains("data-x=\"nines\" data-y=\"powers\"") && html.contains(";--x0:0;--w:3"));
    assert!(!html.contains("<told>"));
}

#[test]
fn numbers_are_as_short_as_seven_digits_are() {
    for (value, wanted) in [
        (0.0, "0"),
        (f64::NAN, "0"),
        (1.0, "1"),
        (-2.5, "-2.5"),
        (100.0, "100"),
        (1_234_567.89, "1234568"),
        (0.123_456_789, "0.1234568"),
        (12.345_678_9, "12.34568"),
    ] {
        assert_eq!(number(value), wanted);
    }
    let percents = [0.3, 1.0, 2.0, 3.0, 4.0].map(percentile);
    assert_eq!(percents, ["50 %", "90 %", "99.0 %", "99.90 %", "99.990 %"]);
}
