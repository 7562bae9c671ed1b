//! A collector that takes metrics, or sends whoever posts them elsewhere.

use crate::OtlpSettings;
use crate::tests::hook::{Application, test_api};

#[test]
fn only_what_a_collector_answers_with_2xx_was_taken() {
    let collector = Application::start();
    let url = collector.hook().url;
    let test_api = test_api(&collector, |settings| {
        settings.webhooks.clear();
        settings.otlp = Some(OtlpSettings { url, interval_ms: 5, timeout_ms: 30_000 });
    });
    for status in [302, 200, 304, 202] {
        let (_, body) = collector.take(status);
        assert!(body["resourceMetrics"].is_array(), "{body}");
    }
    let told = |name: &str| {
        let (_, page, _) = test_api.send("GET", "/metrics", "");
        let mut lines = page.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(found, _)| *found == name).and_then(|(_, count)| count.parse::<u64>().ok())
    };
    loop {
        let taken = told("holdline_otlp_exports_total").expect("a figure");
        let failed = told("holdline_otlp_failures_total").expect("a figure");
        if taken + failed >= 4 {
            assert_eq!((taken, failed), (2, 2));
            break;
        }
        std::thread::yield_now();
    }
    drop(collector); // the export under way ends
}
