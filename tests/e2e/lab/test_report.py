"""The laboratory's page in headless Chromium: charts, values under the cursor, zoom, hiding, saving.

The runs are the fixtures of laboratory/report; `cargo test` writes their pages. HOLDLINE_SAMPLES may
name a folder where they are already.
"""

import json
import os
import subprocess
import tempfile
import unittest

from fixture import poll
from lab.report_browser import Browser, chromium

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BYTES_MAX = 5_000_000

# What a chart shows: nothing but the drawing itself is asked.
CHARTS = """[...document.querySelectorAll('figure.chart')].map(figure => {
  const svg = figure.querySelector('.pane > svg'), box = svg.getBoundingClientRect();
  const paths = [...svg.querySelectorAll('path:not(.off)')];
  const drawn = paths.filter(path => {
    const own = path.getBBox(), seen = path.getBoundingClientRect();
    return own.width + own.height > 0 && seen.left < box.right + 2 && seen.right > box.left - 2
      && seen.top < box.bottom + 2 && seen.bottom > box.top - 2;
  });
  return {id: figure.id, wide: box.width, high: box.height, paths: paths.length,
    drawn: drawn.length, label: svg.getAttribute('aria-label'),
    across: figure.querySelectorAll('.xs i').length, up: figure.querySelectorAll('.ys i').length,
    rows: figure.querySelectorAll('table tbody tr').length};
})"""


def values(page, chart):
    return page.run(f"[...document.querySelectorAll('#{chart} .legend button')]"
                    ".map(key => key.firstElementChild.nextSibling.data + '=' "
                    "+ key.querySelector('b').textContent)")


def place(page, chart, share):
    """Scrolls to a chart and gives a place in it, so far from its left."""
    page.run(f"document.querySelector('#{chart}').scrollIntoView({{block: 'center'}})")
    box = page.run(f"(() => {{ const box = document.querySelector('#{chart} .pane')"
                   ".getBoundingClientRect(); return [box.left, box.top, box.width, box.height] })()")
    return box[0] + box[2] * share, box[1] + box[3] / 2


@unittest.skipUnless(chromium(), "Chromium is not installed: NO PAGE WAS TRIED")
class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = os.environ.get("HOLDLINE_SAMPLES")
        if not cls.folder:
            kept = tempfile.TemporaryDirectory(prefix="holdline-reports-")
            cls.addClassCleanup(kept.cleanup)
            cls.folder = kept.name
            subprocess.run(
                ["cargo", "test", "--quiet", "--package", "report", "--test", "page", "--",
                 "--ignored", "writes_samples"],
                cwd=ROOT, check=True, env={**os.environ, "HOLDLINE_SAMPLES": cls.folder},
                stdout=subprocess.DEVNULL)
        cls.page = Browser()
        cls.addClassCleanup(cls.page.close)

    def opened(self, name):
        self.page.errors.clear()
        self.page.open(os.path.join(self.folder, f"{name}.html"))
        return self.page

    def test_every_page_is_whole_small_and_quiet(self):
        for name in ("link-limit", "ladder", "saturated", "tiny", "empty", "monstrous", "compare"):
            with self.subTest(name):
                self.assertLess(os.path.getsize(os.path.join(self.folder, f"{name}.html")),
                                BYTES_MAX)
                page = self.opened(name)
                self.assertEqual(page.errors, [])
                self.assertTrue(page.run("document.querySelector('.banner .verdict').textContent"))
                self.assertEqual(page.run("document.scripts.length"),
                                 0 if name == "compare" else 2)
                self.assertLessEqual(page.run("document.documentElement.scrollWidth"), 1300)

    def test_all_charts_are_there_and_drawn(self):
        page = self.opened("link-limit")
        charts = {chart["id"]: chart for chart in page.run(CHARTS)}
        for wanted in ("c-connections", "c-new", "c-bytes", "c-time-bind", "c-time-connect",
                       "c-curve-bind", "c-errors", "c-heartbeats", "c-heartbeats-lost",
                       "c-target-cpu", "c-target-cores", "c-target-memory", "c-target-sockets",
                       "c-target-queue", "c-target-descriptors", "c-target-net-bytes",
                       "c-target-net-packets", "c-tester-cpu", "c-tester-memory"):
            self.assertIn(wanted, charts)
        for chart in charts.values():
            with self.subTest(chart["id"]):
                self.assertGreater(chart["wide"], 300)
                self.assertGreater(chart["high"], 100)
                self.assertGreater(chart["drawn"], 0)
                self.assertEqual(chart["drawn"], chart["paths"])
                self.assertGreater(chart["across"], 1)
                self.assertGreater(chart["up"], 1)
                self.assertGreater(chart["rows"], 0)
                self.assertGreater(len(chart["label"]), 20)
        self.assertGreater(page.run("document.querySelectorAll('#kernel .spark').length"), 2)
        self.assertEqual(page.errors, [])

    def test_the_cursor_reads_all_charts_at_one_moment(self):
        page = self.opened("link-limit")
        x, y = place(page, "c-connections", 0.5)
        page.mouse("mouseMoved", x, y)
        shown = values(page, "c-connections")
        # Half of 16 minutes: the fourth step has been bound for a minute.
        self.assertIn("online=240,000", shown)
        self.assertTrue(any(value.startswith("established=240,0")
                            for value in values(page, "c-target-sockets")))
        self.assertEqual(page.run("document.querySelector('#c-new .cross').dataset.at"), "8:00")
        lines = page.run("[...document.querySelectorAll('figure[data-x=time] .cross')]"
                         ".map(cross => getComputedStyle(cross).display)")
        self.assertEqual(set(lines), {"block"})
        self.assertEqual(values(page, "c-curve-bind")[0], "corrected=")
        page.mouse("mouseMoved", 5, 5)
        self.assertIn("online=", values(page, "c-connections"))

    def test_the_cursor_reads_a_percentile(self):
        page = self.opened("link-limit")
        wide = page.run("+document.querySelector('#c-curve-bind').style.getPropertyValue('--w')")
        x, y = place(page, "c-curve-bind", 2 / wide)
        page.mouse("mouseMoved", x, y)
        self.assertEqual(page.run("document.querySelector('#c-curve-bind .cross').dataset.at"),
                         "99.0 %")
        p99 = page.run("[...document.querySelectorAll('#distributions table tr')].find(row => "
                       "row.textContent.startsWith('bind')).cells[6].textContent")
        corrected = values(page, "c-curve-bind")[0].split("=")[1].split()
        self.assertEqual(corrected[1], p99.split()[1])
        self.assertAlmostEqual(float(corrected[0]), float(p99.split()[0]),
                               delta=0.1 * float(corrected[0]))

    def test_dragging_zooms_all_charts_and_the_keyboard_too(self):
        page = self.opened("link-limit")
        before = page.run("document.querySelector('#c-errors svg').getAttribute('viewBox')")
        x, y = place(page, "c-connections", 0.5)
        to_x, _ = place(page, "c-connections", 0.75)
        page.drag(x, y, to_x)
        view = "document.querySelector('#{} svg').getAttribute('viewBox').split(' ').map(Number)"
        for chart in ("c-connections", "c-errors", "c-target-cpu"):
            left, _, wide, _ = page.run(view.format(chart))
            self.assertAlmostEqual(left, 480, delta=3)
            self.assertAlmostEqual(wide, 240, delta=5)
        self.assertTrue(all(each["drawn"] for each in page.run(CHARTS)
                            if each["id"] == "c-connections"))
        self.assertEqual(page.run("document.querySelector('#c-connections .xs u').textContent"),
                         "8:00")
        self.assertFalse(page.run("document.getElementById('whole').disabled"))
        page.run("document.getElementById('whole').click()")
        self.assertEqual(
            page.run("document.querySelector('#c-errors svg').getAttribute('viewBox')"), before)
        page.mouse("mouseMoved", 5, 5)
        page.run("document.querySelector('#c-new .pane').focus()")
        page.key("+")
        left, _, wide, _ = page.run(view.format("c-connections"))
        self.assertEqual((left, wide), (240, 480))
        page.key("0")
        self.assertEqual(page.run(view.format("c-connections"))[2], 960)
        self.assertEqual(page.errors, [])

    def test_a_finding_leads_to_its_time_and_a_stage_too(self):
        page = self.opened("link-limit")
        page.run("document.querySelector('.finding.limit .jump').click()")
        left, wide = page.run("document.querySelector('#c-connections svg')"
                              ".getAttribute('viewBox').split(' ').map(Number).filter((_, n) => "
                              "n % 2 === 0)")
        self.assertTrue(780 < left < 845 and 60 < wide < 180, (left, wide))
        self.assertTrue(page.run("location.hash") == "#charts")
        page.run("(() => { const zoom = document.getElementById('zoom'); zoom.selectedIndex = 2;"
                 "zoom.dispatchEvent(new Event('change')); })()")
        self.assertEqual(page.run("document.querySelector('#c-connections svg')"
                                  ".getAttribute('viewBox').split(' ')[0]"), "120")

    def test_lines_can_be_hidden_and_the_others_grow(self):
        page = self.opened("link-limit")
        high = "+document.querySelector('#{}').style.getPropertyValue('--h')"
        before = page.run(high.format("c-errors"))
        page.run("document.querySelector('#c-errors .legend button').click()")
        self.assertLess(page.run(high.format("c-errors")), before * 0.6)
        self.assertEqual(page.run("document.querySelectorAll('#c-errors path.off').length"), 1)
        page.run("document.querySelector('#c-errors .legend button').click()")
        self.assertAlmostEqual(page.run(high.format("c-errors")), before, delta=before / 100)
        x, y = place(page, "c-errors", 14.5 / 16)
        page.mouse("mouseMoved", x, y)
        causes = [float(value.split("=")[1].rstrip("/s").replace(",", ""))
                  for value in values(page, "c-errors")]
        self.assertTrue(900 < sum(causes) < 1000 and min(causes) > 100, causes)

    def test_it_has_two_schemes_and_a_button(self):
        page = self.opened("link-limit")
        colour = "getComputedStyle(document.body).backgroundColor"
        seen = []
        for scheme in ("light", "dark"):
            page.scheme(scheme)
            seen.append(page.run(colour))
            page.run("document.getElementById('scheme').click()")
            self.assertNotEqual(page.run(colour), seen[-1])
            page.run("delete document.documentElement.dataset.scheme")
        self.assertEqual(seen[0], "rgb(255, 255, 255)")
        self.assertNotEqual(seen[0], seen[1])
        page.scheme("light")

    def test_the_run_can_be_saved_and_is_the_run(self):
        page = self.opened("link-limit")
        with tempfile.TemporaryDirectory() as folder:
            page.call("Page.setDownloadBehavior", behavior="allow", downloadPath=folder)
            page.run("document.querySelector('footer .save').click()")
            path = os.path.join(folder, "run.json")
            poll(lambda: os.path.exists(path), f"it is saved: {os.listdir(folder)}")
            with open(path, encoding="utf-8") as file:
                saved = json.load(file)
        with open(os.path.join(self.folder, "link-limit.json"), encoding="utf-8") as file:
            run = json.load(file)
        self.assertEqual(saved, run)

    def test_paper_and_a_browser_without_script_show_it_as_well(self):
        page = self.opened("link-limit")
        path = os.path.join(self.folder, "link-limit.pdf")
        page.paper(path)
        self.assertGreater(os.path.getsize(path), 50_000)
        page.call("Emulation.setScriptExecutionDisabled", value=True)
        try:
            page.open(os.path.join(self.folder, "link-limit.html"))
            page.call("Emulation.setScriptExecutionDisabled", value=False)
            self.assertTrue(all(chart["drawn"] for chart in page.run(CHARTS)))
            self.assertEqual(page.run("getComputedStyle(document.querySelector('.tools')).display"),
                             "none")
        finally:
            page.call("Emulation.setScriptExecutionDisabled", value=False)

    def test_a_result_that_is_not_valid_says_so_in_red(self):
        page = self.opened("saturated")
        self.assertIn("The tester was saturated, this result is not valid.",
                      page.run("document.querySelector('.banner').textContent"))
        red, green, blue = page.run("getComputedStyle(document.querySelector('.banner'))"
                                    ".backgroundColor.match(/\\d+/g).map(Number)")
        self.assertTrue(red > 140 and green < 60 and blue < 60, (red, green, blue))
