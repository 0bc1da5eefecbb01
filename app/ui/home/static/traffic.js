// The chart of the overview: messages per second in and out over the last 15 minutes.
(() => {
  "use strict";
  const { amount, colour, draws, time } = window.kiteCharts;
  const texts = JSON.parse(document.getElementById("texts").textContent);
  const clock = (seconds) => time(seconds).slice(11, 16);
  const line = (name, fill) => ({ label: name, stroke: colour(name), width: 1.75, fill, points: { show: false } });

  function read(data) {
    const times = data.in.map((_, index) => (data.start + index * data.step) / 1000);
    const last = times[times.length - 1];
    return { columns: [times, data.in, data.out], range: [last - 900, last] };
  }

  function said({ columns: [times, into, out] }, index) {
    const text = texts.traffic.replace("{in}", into[index].toFixed(1)).replace("{out}", out[index].toFixed(1));
    return { at: time(times[index]).slice(11), text };
  }

  const own = (element, chart, axis) => ({
    scales: {
      x: { time: true, range: () => chart.data.range },
      y: { range: (_plot, _low, high) => [0, Math.max(1, high * 1.12)] },
    },
    axes: [
      {
        ...axis,
        size: 30,
        values: (_plot, ticks) => {
          const clocks = ticks.map(clock);
          element.dataset.ticks = clocks.join(" ");
          return clocks;
        },
        space: 70,
      },
      { ...axis, size: 46, values: (_plot, ticks) => ticks.map(amount), space: 34 },
    ],
    series: [{}, line("in", colour("fill")), line("out")],
  });

  draws("data-chart", { read, own, said });
})();
