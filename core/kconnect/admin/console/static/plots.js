// Draws what activity_data.html holds, with uPlot; again when new values arrive, the window or the theme changes.
"use strict";
(() => {
  const drawn = new Map();

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function short(value) {
    if (value === null || value === undefined) return "";
    for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) if (value >= size) return +(value / size).toPrecision(3) + unit;
    return String(+value.toPrecision(3));
  }

  // A worker that was started just now has minutes only: then the marks are seconds apart
  function clocks(times) {
    const isFine = times.length > 1 && times[1] - times[0] < 60;
    return times.map((seconds) => new Date(seconds * 1000).toTimeString().slice(0, isFine ? 8 : 5));
  }

  function options(plot, width) {
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const colours = [colour("--accent"), colour("--warn")];
    return {
      width, height: 160, cursor: { sync: { key: "activity" }, y: false }, legend: { show: false },
      scales: { y: { range: (_u, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, size: 26, values: (_u, times) => clocks(times) }, { ...axis, size: 48, values: (_u, values) => values.map(short) }],
      series: [{}, ...plot.lines.map((line, place) => ({ label: line.label, stroke: colours[place % colours.length], width: 1.5, points: { show: false }, fill: place ? undefined : colours[0] + "1a" }))],
      hooks: { setCursor: [(chart) => metrics(chart, plot)] },
    };
  }

  function metrics(chart, plot) {
    const at = chart.cursor.idx;
    const list = chart.root.closest(".plot").querySelector(".metrics");
    plot.lines.forEach((line, place) => {
      const values = chart.data[place + 1];
      const value = at === null || at === undefined ? values.findLast((each) => each !== null) : values[at];
      list.children[place].querySelector("b").textContent = value === null || value === undefined ? "-" : short(value) + plot.unit;
    });
  }

  function place(plot) {
    const box = document.createElement("div");
    box.className = "plot";
    const title = document.createElement("h3");
    title.textContent = plot.title;
    const list = document.createElement("ul");
    list.className = "metrics";
    plot.lines.forEach((line, number) => {
      const item = document.createElement("li"), key = document.createElement("i");
      key.className = number ? "key second" : "key";
      item.append(key, line.label + " ", document.createElement("b"));
      list.append(item);
    });
    const canvas = document.createElement("div");
    canvas.className = "canvas";
    box.append(title, list, canvas);
    return box;
  }

  // Where to begin: after a start there are a few minutes only, which an empty hour would press into a corner
  const LEAST = 30;
  function known(data) {
    const first = (values) => values.findIndex((value) => value !== null);
    const found = data.plots.flatMap((plot) => plot.lines.map((line) => first(line.values))).filter((at) => at >= 0);
    return Math.max(0, Math.min(...found, data.times.length - LEAST));
  }

  function draw(afresh) {
    const holder = document.getElementById("activity-data"), into = document.getElementById("plots");
    if (!holder || !into || !holder.dataset.plots) return;
    const data = JSON.parse(holder.dataset.plots);
    const titles = data.plots.map((plot) => plot.title).join();
    if (afresh || into.dataset.titles !== titles) {
      for (const chart of drawn.values()) chart.destroy();
      drawn.clear();
      into.replaceChildren(...data.plots.map(place));
      into.dataset.titles = titles;
    }
    const from = known(data);
    data.plots.forEach((plot, number) => {
      const values = [data.times, ...plot.lines.map((line) => line.values)].map((each) => each.slice(from));
      const box = into.children[number];
      const chart = drawn.get(plot.title);
      if (chart) {
        chart.setData(values);
      } else {
        const canvas = box.querySelector(".canvas");
        drawn.set(plot.title, new uPlot(options(plot, canvas.clientWidth), values, canvas));
      }
      metrics(drawn.get(plot.title), plot);
    });
  }

  let waiting = 0;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(() => draw(true), 150); });
  document.addEventListener("kconnect:theme", () => draw(true));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(true));
  document.addEventListener("htmx:load", () => draw(!document.querySelector("#plots")?.dataset.titles));
  document.addEventListener("DOMContentLoaded", () => draw(true));
})();
