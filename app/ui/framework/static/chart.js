// What all charts have in common: drawn from the JSON beside them, drawn again when that, the
// colours or the width change; what lies under the pointer is told.
(() => {
  "use strict";
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => `${root.dataset.theme}${dark.matches}`;
  const zone = root.dataset.zone;
  const calendar = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
  const amount = (value) => (value >= 10000 ? `${Math.round(value / 1000)}k` : value.toLocaleString("en"));
  const time = (seconds) => calendar.format(seconds * 1000); // "2026-11-20 22:24:14"

  function colour(name) {
    const probe = document.createElement("span");
    probe.style.color = `var(--${name})`;
    document.body.append(probe);
    const value = getComputedStyle(probe).color;
    probe.remove();
    return value;
  }

  function tip(said) {
    const box = document.createElement("div");
    box.className = "chart-tip";
    box.hidden = true;
    return {
      hooks: {
        init: (plot) => plot.over.append(box),
        setCursor: (plot) => {
          const { idx, left, top } = plot.cursor;
          box.hidden = idx == null || left < 0;
          if (box.hidden) return;
          const { at, text } = said(idx);
          box.textContent = `${at} ${zone}   ${text}`;
          // Above the pointer, on the side that has room, so that it hides nothing under it.
          const beside = left + box.offsetWidth + 14 < plot.over.clientWidth;
          box.style.top = `${Math.max(4, top - box.offsetHeight - 8)}px`;
          box.style.left = `${Math.max(4, beside ? left + 12 : left - box.offsetWidth - 12)}px`;
        },
      },
    };
  }

  function common(element, chart, said) {
    const grid = { stroke: colour("line-soft"), width: 1 };
    const font = `12px ${getComputedStyle(document.body).fontFamily}`;
    return {
      width: element.clientWidth,
      height: element.clientHeight,
      legend: { show: false },
      padding: [8, 20, 0, 0],
      cursor: { drag: { x: false, y: false }, points: { size: 7 } },
      plugins: [tip((index) => said(chart.data, index))],
      axis: { stroke: colour("muted"), grid, ticks: { show: false }, font },
    };
  }

  // The elements whose attribute `name` holds the id of their JSON. `read` makes of it what is
  // drawn, its `columns` among it; `own` the rest of uPlot's options, from the element, the chart
  // and what axes have in common; `said` what is told of a sample: when it is `at`, and a `text`.
  function draws(name, { read, own, said }) {
    const charts = new WeakMap();
    const each = (act) => document.querySelectorAll(`[${name}]`).forEach(act);
    function draw(element) {
      if (!window.uPlot || !element.isConnected) return;
      const source = document.getElementById(element.getAttribute(name));
      if (!source) return;
      const data = read(JSON.parse(source.textContent));
      const known = charts.get(element);
      if (known && known.theme === theme()) {
        known.data = data;
        known.plot.setData(data.columns);
        return;
      }
      known?.plot.destroy();
      const chart = { theme: theme(), data };
      const { axis, ...options } = common(element, chart, said);
      chart.plot = new uPlot({ ...options, ...own(element, chart, axis) }, data.columns, element);
      charts.set(element, chart);
    }
    const redraw = () => each(draw);
    document.addEventListener("htmx:after:swap", redraw);
    dark.addEventListener("change", redraw);
    new MutationObserver(redraw).observe(root, { attributeFilter: ["data-theme"] });
    let width = innerWidth;
    addEventListener("resize", () => {
      if (width === innerWidth) return;
      width = innerWidth;
      each((element) =>
        charts.get(element)?.plot.setSize({ width: element.clientWidth, height: element.clientHeight }),
      );
    });
    redraw();
  }

  window.kiteCharts = { amount, colour, draws, time, zone };
})();
