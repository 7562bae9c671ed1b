'use strict';
// What moves in the page: values under the cursor, zoom, hiding a line, saving the run.
// Values are read from the drawing: a line's path is in the chart's own measures.
(() => {
  const all = (what, within = document) => [...within.querySelectorAll(what)];
  const root = document.documentElement, main = document.querySelector('main');
  const end = +main.dataset.to;
  let view = [0, end];
  root.classList.add('scripted');

  // Figures as people read them: figure.rs once more.
  const digits = v => {
    const size = Math.abs(v);
    if (size === 0 || size >= 99.95) return v.toFixed(0);
    if (size < 1e-4) return v.toExponential(1);
    const places = size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 2 - Math.floor(Math.log10(size));
    return String(+v.toFixed(places));
  };
  const scaled = (v, one, names) => {
    let place = 0;
    while (Math.abs(v) >= 1000 && place + 1 < names.length) { v /= one; place += 1; }
    return digits(v) + names[place];
  };
  const parts = (v, one, large, small) => `${Math.floor(v / one)} ${large} ${v % one} ${small}`;
  const seconds = v => v < 120 ? digits(v) + ' s' : v < 7200
    ? parts(Math.round(v), 60, 'min', 's') : parts(Math.round(v / 60), 60, 'h', 'min');
  const written = {
    count: v => v !== Math.round(v) && Math.abs(v) < 100 ? digits(v)
      : Math.round(v).toLocaleString('en-US'),
    bytes: v => scaled(v, 1024, [' B', ' KiB', ' MiB', ' GiB', ' TiB']),
    micros: v => v >= 120e6 ? seconds(v / 1e6) : scaled(v, 1000, [' µs', ' ms', ' s']),
    share: v => v !== 0 && Math.abs(v) < 1e-4 ? v.toExponential(1) : digits(v * 100) + ' %',
    seconds,
  };
  const short = (unit, v) => v === 0 ? '0'
    : unit === 'count' ? scaled(v, 1000, ['', 'k', 'M', 'G']) : written[unit](v);
  const two = n => String(n).padStart(2, '0');
  const clock = (s, step = 1) => {
    const t = Math.floor(s + 1e-6), h = Math.floor(t / 3600), m = Math.floor(t / 60) % 60;
    const text = h ? `${h}:${two(m)}:${two(t % 60)}` : `${m}:${two(t % 60)}`;
    return step < 1 ? `${text}.${Math.round((s - t) * 10) % 10}` : text;
  };
  const percentile = n => (100 - 100 / 10 ** n).toFixed(Math.max(0, Math.floor(n) - 1)) + ' %';

  // Marks of axes: axis.rs once more.
  const steps = (low, high, step) => {
    const out = [];
    for (let n = Math.ceil(low / step - 1e-9); n <= high / step + 1e-9 && out.length < 40; n += 1)
      out.push(n * step);
    return out;
  };
  const timeSteps = [.1, .2, .5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
    21600, 43200, 86400];
  const timeMarks = (low, high) => {
    const span = high - low;
    const step = timeSteps.find(s => span / s <= 8) || Math.ceil(span / 691200) * 86400;
    return steps(low, high, step).map(at => [at, clock(at, step)]);
  };
  const heightMarks = (chart, low, high) => {
    if (chart.kind === 'powers') {
      const parts = high - low < 1 ? [1, 1.5, 2, 3, 4, 5, 7] : high - low < 2.5 ? [1, 2, 5] : [1];
      const every = Math.max(1, Math.ceil((high - low) / 6)), out = [];
      for (let p = Math.floor(low); p <= Math.ceil(high); p += 1)
        for (const part of parts) {
          const at = p + Math.log10(part);
          if (p % every === 0 && at >= low && at <= high)
            out.push([at, short(chart.unit, 10 ** at)]);
        }
      return out;
    }
    const one = chart.unit === 'bytes' ? 1024 ** Math.floor(Math.log2(Math.max(high, 1)) / 10) : 1;
    const rough = Math.max((high - low) / one / 5, 1e-9), ten = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find(part => part * ten >= rough * .999) * ten * one;
    return steps(low, high, step).map(at => [at, short(chart.unit, at)]);
  };
  const marks = (place, list) => list
    .map(([at, text]) => `<i style="${place}:${at}"><u>${text}</u></i>`).join('');

  // The charts, their lines and the lines' points.
  const charts = all('figure.chart').map(figure => {
    const svg = figure.querySelector('.pane > svg');
    const chart = {
      figure, svg, pane: figure.querySelector('.pane'), cross: figure.querySelector('.cross'),
      kind: figure.dataset.y, unit: figure.dataset.unit, per: figure.dataset.per,
      time: figure.dataset.x === 'time', lines: [],
    };
    for (const key of all('.legend button', figure)) {
      const path = svg.querySelector(`path[data-line="${key.dataset.line}"]`);
      const line = { key, path, value: key.querySelector('b'), read: null };
      chart.lines.push(line);
      key.addEventListener('click', () => {
        const shown = key.getAttribute('aria-pressed') !== 'true';
        key.setAttribute('aria-pressed', shown);
        path.classList.toggle('off', !shown);
        if (chart.kind === 'stacked') stack(chart);
        fit(chart);
      });
    }
    return chart;
  });
  const points = line => {
    if (!line.read) {
      const numbers = (line.path.getAttribute('d').match(/-?[\d.]+/g) || []).map(Number);
      const every = odd => numbers.filter((_, place) => place % 2 === odd);
      line.read = { x: every(0), y: every(1) };
    }
    return line.read;
  };
  const shown = line => line.key.getAttribute('aria-pressed') === 'true';
  // Each area's own values: what it has above the one below it.
  const own = (chart, place) => {
    if (!chart.own) chart.own = chart.lines.map((line, n) => {
      const below = n ? points(chart.lines[n - 1]).y : null;
      return points(line).y.map((y, at) => below ? y - below[at] : y);
    });
    return chart.own[place];
  };
  const stack = chart => {
    own(chart, 0);
    let floor = null;
    chart.lines.forEach((line, place) => {
      const mine = own(chart, place), read = points(line);
      read.y = mine.map((v, at) => (floor ? floor[at] : 0) + (shown(line) ? v : 0));
      floor = read.y;
      line.path.setAttribute('d', 'M' + read.x.map((x, at) => `${x} ${read.y[at]}`).join(' '));
    });
  };
  const nearest = (xs, at) => {
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const mid = (low + high) >> 1;
      if (xs[mid] <= at) low = mid; else high = mid;
    }
    return at - xs[low] <= xs[high] - at ? low : high;
  };

  // Shows a chart as far as the view goes, as high as its lines are there.
  const fit = chart => {
    const [from, to] = chart.time ? view : [0, +chart.figure.style.getPropertyValue('--w')];
    const style = chart.figure.style;
    let low = +style.getPropertyValue('--y0'), high = low + +style.getPropertyValue('--h');
    if (chart.figure.dataset.fixed === undefined) {
      [low, high] = [Infinity, -Infinity];
      for (const line of chart.lines.filter(shown)) {
        const { x, y } = points(line);
        for (let n = 0; n < x.length; n += 1)
          if ((x[n] >= from || x[n + 1] > from) && (x[n] <= to || x[n - 1] < to)) {
            low = Math.min(low, y[n]);
            high = Math.max(high, y[n]);
          }
      }
      if (low > high) [low, high] = [0, 1];
      if (chart.kind === 'powers') {
        low = Math.max(0, low - .08);
        high = Math.max(low + .6, high + .08);
      } else [low, high] = [Math.min(low, 0) * 1.06, Math.max(high, 0) * chart.figure.dataset.room];
      if (high <= low) high = low + 1;
      style.setProperty('--y0', low);
      style.setProperty('--h', high - low);
      chart.figure.querySelector('.ys').innerHTML = marks('--b', heightMarks(chart, low, high));
    }
    chart.svg.setAttribute('viewBox', `${from} ${-high} ${to - from} ${high - low}`);
    if (chart.time) chart.figure.querySelector('.xs').innerHTML = marks('--a', timeMarks(from, to));
  };
  const zoom = (from, to) => {
    const span = Math.max(to - from, Math.min(2, end));
    from = Math.max(0, Math.min(from, end - span));
    view = [from, Math.min(end, from + span)];
    main.style.setProperty('--x0', view[0]);
    main.style.setProperty('--w', view[1] - view[0]);
    charts.filter(chart => chart.time).forEach(fit);
    document.getElementById('whole').disabled = view[0] === 0 && view[1] === end;
  };

  // Values at a moment, in all charts over time; or at a percentile, in one.
  let moment = null;
  const read = (chart, at) => {
    moment = chart.time ? at : moment;
    const group = chart.time ? charts.filter(each => each.time) : [chart];
    (chart.time ? main : chart.figure).style.setProperty('--t', at);
    for (const each of group) {
      each.figure.classList.add('reads');
      each.cross.dataset.at = each.time ? clock(at) : percentile(at);
      each.lines.forEach((line, place) => {
        const { x, y } = points(line);
        const near = x.length ? nearest(x, at) : -1;
        const far = near < 0 || Math.abs(x[near] - at) > (view[1] - view[0]) / 20 + 2;
        let v = near < 0 ? 0 : each.kind === 'stacked' ? own(each, place)[near] : y[near];
        if (each.kind === 'powers') v = 10 ** v;
        line.value.textContent = far && each.time ? '–' : written[each.unit](v) + each.per;
      });
    }
  };
  const forget = () => {
    moment = null;
    for (const chart of charts) {
      chart.figure.classList.remove('reads');
      chart.lines.forEach(line => { line.value.textContent = ''; });
    }
  };
  for (const chart of charts) {
    const wide = () => chart.time ? view : [0, +chart.figure.style.getPropertyValue('--w')];
    const where = event => {
      const box = chart.pane.getBoundingClientRect(), [from, to] = wide();
      return from + Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) * (to - from);
    };
    let from = null, mark = null;
    chart.pane.addEventListener('pointermove', event => {
      read(chart, where(event));
      if (!mark) return;
      const [low, high] = [from, where(event)].sort((a, b) => a - b), [start, stop] = wide();
      mark.style.left = (low - start) / (stop - start) * 100 + '%';
      mark.style.width = (high - low) / (stop - start) * 100 + '%';
    });
    chart.pane.addEventListener('pointerdown', event => {
      if (!chart.time || event.button !== 0) return;
      from = where(event);
      mark = document.createElement('i');
      mark.className = 'select';
      chart.pane.append(mark);
      chart.pane.setPointerCapture(event.pointerId);
    });
    chart.pane.addEventListener('pointerup', event => {
      if (!mark) return;
      const [low, high] = [from, where(event)].sort((a, b) => a - b);
      mark.remove();
      mark = null;
      if (high - low > (view[1] - view[0]) / 100) zoom(low, high);
    });
    chart.pane.addEventListener('pointercancel', () => { if (mark) mark.remove(); mark = null; });
    chart.pane.addEventListener('pointerleave', () => { if (!mark) forget(); });
    chart.pane.addEventListener('dblclick', () => zoom(0, end));
    chart.pane.addEventListener('keydown', event => {
      const span = view[1] - view[0], at = moment === null ? (view[0] + view[1]) / 2 : moment;
      const acts = {
        ArrowLeft: () => read(chart, Math.max(view[0], at - span / 100)),
        ArrowRight: () => read(chart, Math.min(view[1], at + span / 100)),
        '+': () => zoom(at - span / 4, at + span / 4),
        '-': () => zoom(at - span, at + span),
        0: () => zoom(0, end),
        Escape: forget,
      };
      if (!acts[event.key] || !chart.time) return;
      event.preventDefault();
      acts[event.key]();
    });
  }

  // The tools, and whatever names a stretch of the run.
  document.getElementById('whole').addEventListener('click', () => zoom(0, end));
  document.getElementById('zoom').addEventListener('change', event =>
    zoom(...event.target.value.split(' ').map(Number)));
  document.getElementById('scheme').addEventListener('click', () => {
    const dark = root.dataset.scheme ? root.dataset.scheme === 'dark'
      : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.scheme = dark ? 'light' : 'dark';
  });
  for (const jump of all('.jump')) jump.addEventListener('click', () => {
    const from = jump.dataset.from / 1000, to = jump.dataset.to / 1000;
    const around = Math.max((to - from) * .3, end / 50, 5);
    zoom(from - around, to + around);
  });
  const run = document.getElementById('run');
  const saves = all('button.save');
  if (!run) saves.forEach(save => save.remove());
  else for (const save of saves) save.addEventListener('click', () => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([run.textContent], { type: 'application/json' }));
    link.download = 'run.json';
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
})();
