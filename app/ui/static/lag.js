// The chart of a group's lag: drawn from the JSON beside it, drawn again when that, the colours or
// the width change. Stretches without a sample are gaps in the line.
(() => {
  "use strict";
  const charts = new WeakMap();
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => `${document.documentElement.dataset.theme}${dark.matches}`;
  const zone = document.documentElement.dataset.zone;
  const calendar = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });

  function colour(name) {
    const probe = document.createElement("span");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  }

  // Lengths of time in the words of formats.py, which the page has in its language.
  const texts = JSON.parse(document.getElementById("texts").textContent);
  const STEPS = [[120, 1, "s"], [7200, 60, "min"], [172800, 3600, "h"], [Infinity, 86400, "d"]];
  function length(ms) {
    if (ms <= 0) return "0";
    if (ms < 1000) return texts.ms.replace("{}", Math.round(ms));
    const seconds = Math.floor(ms / 1000);
    const [, divisor, unit] = STEPS.find(([limit]) => seconds < limit);
    return texts[unit].replace("{}", Math.floor(seconds / divisor));
  }
  const amount = (value) => (value >= 10000 ? `${Math.round(value / 1000)}k` : value.toLocaleString("en"));
  const worded = (data, value) => (data.unit === "ms" ? length(value) : data.said.replace("{}", value.toLocaleString("en")));

  function when(seconds, span) {
    const at = calendar.format(seconds * 1000);
    const [day, clock] = [at.slice(5, 10), at.slice(11, 16)];
    return span > 172800 ? day : clock === "00:00" && span > 3600 ? day : clock;
  }

  // A sample between two gaps has no neighbour to draw a line to: it is a dot.
  function lonely(plot, index) {
    const values = plot.data[index];
    const found = [];
    values.forEach((value, at) => {
      if (value != null && values[at - 1] == null && values[at + 1] == null) found.push(at);
    });
    return found.length ? found : null;
  }

  function tip(chart) {
    const box = document.createElement("div");
    box.className = "chart-tip";
    box.hidden = true;
    return { hooks: {
      init: (plot) => plot.over.append(box),
      setCursor: (plot) => {
        const { idx, left } = plot.cursor;
        box.hidden = idx == null || left < 0;
        if (box.hidden) return;
        const { data } = chart;
        const at = calendar.format(data.times[idx] * 1000);
        const value = data.values[idx];
        box.textContent = `${at} ${zone}   ${value == null ? data.none : worded(data, value)}`;
        box.style.top = "6px";
        box.style.left = `${Math.min(left + 12, plot.over.clientWidth - box.offsetWidth - 4)}px`;
      },
    } };
  }

  function options(element, chart) {
    const grid = { stroke: colour("line-soft"), width: 1 };
    const font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const axis = { stroke: colour("muted"), grid, ticks: { show: false }, font };
    const times = (plot, ticks) => ticks.map((tick) => when(tick, chart.data.to - chart.data.from));
    const sizes = (plot, ticks) => ticks.map(chart.data.unit === "ms" ? length : amount);
    return {
      width: element.clientWidth, height: element.clientHeight, legend: { show: false }, padding: [8, 20, 0, 0],
      cursor: { drag: { x: false, y: false }, points: { size: 7 } }, plugins: [tip(chart)],
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone === "UTC" ? "Etc/UTC" : zone),
      scales: {
        x: { time: true, range: () => [chart.data.from, chart.data.to] },
        y: { range: (plot, low, high) => [0, Math.max(chart.data.unit === "ms" ? 1000 : 4, high * 1.12)] },
      },
      axes: [
        { ...axis, size: 30, values: times, space: 70 },
        { ...axis, size: 56, values: sizes, space: 34, incrs: chart.data.unit === "ms" ? [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 432800, 864000].map((s) => s * 1000) : [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7] },
      ],
      series: [{}, {
        label: chart.data.label, stroke: colour("in"), width: 1.75, fill: colour("fill"), spanGaps: false,
        points: { show: false, size: 5, filter: lonely },
      }],
    };
  }

  function draw(element) {
    if (!window.uPlot || !element.isConnected) return;
    const source = document.getElementById(element.dataset.lagChart);
    if (!source) return;
    const data = JSON.parse(source.textContent);
    const known = charts.get(element);
    if (known && known.theme === theme()) {
      known.data = data;
      known.plot.setData([data.times, data.values]);
      return;
    }
    known?.plot.destroy();
    const chart = { theme: theme(), data };
    chart.plot = new uPlot(options(element, chart), [data.times, data.values], element);
    charts.set(element, chart);
  }

  const each = (act) => document.querySelectorAll("[data-lag-chart]").forEach(act);
  const redraw = () => each(draw);
  document.addEventListener("htmx:after:swap", redraw);
  dark.addEventListener("change", redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  let width = innerWidth;
  addEventListener("resize", () => {
    if (width === innerWidth) return;
    width = innerWidth;
    each((element) => charts.get(element)?.plot.setSize({ width: element.clientWidth, height: element.clientHeight }));
  });
  redraw();
})();
