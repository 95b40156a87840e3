// Charts as SVG, each with a legend, a cursor for mouse and arrow keys, and a table of the same numbers.
"use strict";

const charts = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 240, 62, 14, 10, 30];

  function make(tag, attributes = {}, ...children) {
    const drawn = ["svg", "path", "line", "text", "circle", "g", "title"].includes(tag);
    const element = drawn ? document.createElementNS(SVG, tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  function short(value) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (size >= 1e4) return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);
    return new Intl.NumberFormat("en", { maximumSignificantDigits: size >= 100 ? 4 : 3 }).format(value);
  }
  const exact = (value) =>
    value === null || value === undefined || !Number.isFinite(value) ? "–" : new Intl.NumberFormat("en", { maximumSignificantDigits: 6 }).format(value);
  const share = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(value < 0.1 ? 2 : 1)}%`);
  const clock = (time) => new Date(1000 * time).toLocaleTimeString("en-GB");

  // About `count` round numbers that cover a range.
  function ticks(low, high, count) {
    const raw = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw) * power;
    const values = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) values.push(k * step || 0); // no −0
    return values;
  }

  function table(head, rows, caption) {
    return make("table", {}, make("caption", {}, caption),
      make("thead", {}, make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell, k) =>
        k ? make("td", {}, cell) : make("th", { scope: "row" }, cell))))));
  }

  // A line chart in a section. A series has a name, a color class and points [x, y].
  class Chart {
    constructor(section, title, { x, y = short, showX = short, least = null, most = null, even = false }) {
      Object.assign(this, { title, x, y, showX, least, most, even, series: [], marks: [], at: null });
      this.legend = make("ul", { class: "legend" });
      this.svg = make("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", tabindex: 0 });
      this.readout = make("p", { class: "readout", "aria-live": "polite" });
      this.held = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `${title}, as a table` });
      this.details = make("details", {}, make("summary", {}, "As a table"), this.held);
      section.append(make("figure", {}, make("figcaption", {}, make("h2", {}, title)), this.legend, this.svg, this.readout), this.details);
      this.details.addEventListener("toggle", () => this.fillTable());
      this.svg.addEventListener("pointermove", (event) => this.follow(event));
      this.svg.addEventListener("pointerleave", () => this.point(null));
      this.svg.addEventListener("blur", () => this.point(null));
      this.svg.addEventListener("keydown", (event) => this.step(event));
    }

    draw(series, marks = []) {
      this.series = series.map((each) => ({ ...each, points: each.points.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y)) }));
      this.marks = marks;
      const points = this.series.flatMap((each) => each.points);
      this.legend.replaceChildren(...this.series.map((each) => make("li", { class: each.colour }, each.name)),
        ...(marks.length ? [make("li", { class: "mark" }, `drift alarms (${marks.length})`)] : []));
      if (!points.length) {
        this.svg.replaceChildren(make("text", { x: WIDTH / 2, y: HEIGHT / 2, "text-anchor": "middle" }, "no data yet"));
        this.svg.setAttribute("aria-label", `${this.title}: no data yet`);
        return;
      }
      const [xs, ys] = [0, 1].map((k) => points.map((point) => point[k]));
      const bound = (limit, value) => (limit === null ? value : limit);
      let [low, high] = [bound(this.least, Math.min(...ys)), bound(this.most, Math.max(...ys))];
      if (high - low < 1e-12) high = low + (Math.abs(low) || 1) * 0.1;
      const room = this.most === null ? 0.06 * (high - low) : 0;
      [low, high] = [this.least === null ? low - room : low, high + room];
      const [first, last] = this.even ? [0, 1] : [Math.min(...xs), Math.max(...xs)];
      this.toX = (x) => LEFT + ((x - first) / (last - first || 1)) * (WIDTH - LEFT - RIGHT);
      this.toY = (y) => HEIGHT - BOTTOM - ((y - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
      const parts = [];
      for (const y of ticks(low, high, 4)) {
        parts.push(make("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: this.toY(y), y2: this.toY(y) }),
          make("text", { x: LEFT - 6, y: this.toY(y) + 4, "text-anchor": "end" }, this.y(y)));
      }
      const across = ticks(first, last, 4);
      across.forEach((x, k) => parts.push(make("text", { x: this.toX(x), y: HEIGHT - 10,
        "text-anchor": k === across.length - 1 && this.toX(x) > WIDTH - 60 ? "end" : "middle" }, this.showX(x))));
      if (this.even) parts.push(make("line", { class: "even", x1: this.toX(0), y1: this.toY(0), x2: this.toX(1), y2: this.toY(1) }));
      for (const x of marks) {
        if (x >= first && x <= last) parts.push(make("line", { class: "mark", x1: this.toX(x), x2: this.toX(x), y1: TOP, y2: HEIGHT - BOTTOM }));
      }
      for (const each of this.series) {
        parts.push(make("path", { class: `line ${each.colour}${each.dashed ? " dashed" : ""}`, d: this.path(each.points) }));
        if (each.dots || each.points.length === 1) {
          parts.push(...each.points.map(([x, y]) => make("circle", { class: each.colour, cx: this.toX(x), cy: this.toY(y), r: 4 })));
        }
      }
      this.cursor = make("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
      this.svg.replaceChildren(...parts, this.cursor);
      const now = this.series.filter((each) => each.points.length).map((each) => `${each.name} ${this.y(each.points.at(-1)[1])}`);
      this.svg.setAttribute("aria-label", `${this.title} by ${this.x}. Latest: ${now.join(", ")}. Use the arrow keys to read it point by point.`);
      if (this.details.open) this.fillTable();
      if (this.at !== null) this.point(Math.min(this.at, this.stops().length - 1)); // keep the cursor where the reader has put it
    }

    path(points) {
      return points.map(([x, y], k) => `${k ? "L" : "M"}${this.toX(x).toFixed(1)} ${this.toY(y).toFixed(1)}`).join("");
    }

    // The cursor stops at the points of the longest series.
    stops() {
      return this.series.reduce((most, each) => (each.points.length > most.length ? each.points : most), []).map(([x]) => x);
    }

    follow(event) {
      const box = this.svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * WIDTH;
      const stops = this.stops();
      if (!stops.length) return;
      const far = stops.map((stop) => Math.abs(this.toX(stop) - x));
      this.point(far.indexOf(Math.min(...far)));
    }

    step(event) {
      const stops = this.stops();
      const now = this.at === null ? stops.length : this.at;
      const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: stops.length - 1, Escape: null }[event.key];
      if (to === undefined || !stops.length) return;
      event.preventDefault();
      this.point(to === null ? null : Math.max(0, Math.min(to, stops.length - 1)));
    }

    point(at) {
      this.at = at;
      const x = at === null ? undefined : this.stops()[at];
      if (this.cursor) this.cursor.setAttribute("visibility", x === undefined ? "hidden" : "visible");
      if (x === undefined) {
        this.readout.textContent = "";
        return;
      }
      this.cursor.setAttribute("x1", this.toX(x));
      this.cursor.setAttribute("x2", this.toX(x));
      const near = (points) => points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best), points[0]);
      const values = this.series.filter((each) => each.points.length).map((each) => `${each.name} ${this.y(near(each.points)[1])}`);
      this.readout.textContent = `${this.x} ${this.showX(x)}: ${values.join(", ")}`;
    }

    fillTable() {
      if (!this.details.open) return;
      const rows = new Map();
      this.series.forEach((each, k) => each.points.forEach(([x, y]) => {
        if (!rows.has(x)) rows.set(x, Array(this.series.length).fill("–"));
        rows.get(x)[k] = this.y(y);
      }));
      const sorted = [...rows].sort((a, b) => b[0] - a[0]).slice(0, 200);
      this.held.replaceChildren(table([this.x, ...this.series.map((each) => each.name)],
        sorted.map(([x, cells]) => [this.showX(x), ...cells]), `${this.title}, newest first`));
    }
  }

  // A small line without axes. Missing numbers are null.
  function spark(values) {
    const numbers = values.filter((value) => value !== null);
    const [low, high] = [Math.min(0, ...numbers), Math.max(0, ...numbers)];
    const toY = (value) => (28 - 26 * ((value - low) / (high - low || 1))).toFixed(1);
    let [path, drawing] = ["", false];
    values.forEach((value, k) => {
      if (value !== null) path += `${drawing ? "L" : "M"}${((k / Math.max(values.length - 1, 1)) * 158 + 1).toFixed(1)} ${toY(value)}`;
      drawing = value !== null;
    });
    return make("svg", { class: "spark", viewBox: "0 0 160 30", preserveAspectRatio: "none", "aria-hidden": "true" },
      make("line", { class: "grid", x1: 0, x2: 160, y1: toY(0), y2: toY(0) }), make("path", { class: "line s1", d: path }));
  }

  return { Chart, make, spark, table, short, exact, share, clock };
})();
