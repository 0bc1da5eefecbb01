// The chart of a group's lag. Stretches without a sample are gaps in the line.
(() => {
  "use strict";
  const { amount, colour, draws, time, zone } = window.kiteCharts;

  // Lengths of time in the words of formats.py, which the page has in its language.
  const texts = JSON.parse(document.getElementById("texts").textContent);
  const STEPS = [
    [120, 1, "s"],
    [7200, 60, "min"],
    [172800, 3600, "h"],
    [Infinity, 86400, "d"],
  ];
  function length(ms) {
    if (ms <= 0) return "0";
    if (ms < 1000) return texts.ms.replace("{}", Math.round(ms));
    const seconds = Math.floor(ms / 1000);
    const [, divisor, unit] = STEPS.find(([limit]) => seconds < limit);
    return texts[unit].replace("{}", Math.floor(seconds / divisor));
  }
  const worded = (data, value) =>
    data.unit === "ms" ? length(value) : data.said.replace("{}", value.toLocaleString("en"));

  function when(seconds, span) {
    const at = time(seconds);
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

  function said(data, index) {
    const value = data.values[index];
    return { at: time(data.times[index]), text: value == null ? data.none : worded(data, value) };
  }

  function own(_element, chart, axis) {
    const times = (_plot, ticks) => ticks.map((tick) => when(tick, chart.data.to - chart.data.from));
    const sizes = (_plot, ticks) => ticks.map(chart.data.unit === "ms" ? length : amount);
    return {
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone === "UTC" ? "Etc/UTC" : zone),
      scales: {
        x: { time: true, range: () => [chart.data.from, chart.data.to] },
        y: { range: (_plot, _low, high) => [0, Math.max(chart.data.unit === "ms" ? 1000 : 4, high * 1.12)] },
      },
      axes: [
        { ...axis, size: 30, values: times, space: 70 },
        {
          ...axis,
          size: 56,
          values: sizes,
          space: 34,
          incrs:
            chart.data.unit === "ms"
              ? [1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 43200, 86400, 172800, 432800, 864000].map(
                  (s) => s * 1000,
                )
              : [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7],
        },
      ],
      series: [
        {},
        {
          label: chart.data.label,
          stroke: colour("in"),
          width: 1.75,
          fill: colour("fill"),
          spanGaps: false,
          points: { show: false, size: 5, filter: lonely },
        },
      ],
    };
  }

  const read = (data) => ({ ...data, columns: [data.times, data.values] });
  draws("data-lag-chart", { read, own, said });
})();
