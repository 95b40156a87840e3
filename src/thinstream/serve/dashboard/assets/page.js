// The page: receives data as server-sent events, or reads them from the file itself, and updates the charts.
"use strict";

(() => {
  const { Chart, make, spark, table, short, exact, share, clock } = charts;
  const find = (id) => document.getElementById(id);
  const MOST = 600; // most samples and ticks in memory
  const [FEW, STRETCHES] = [32, 128]; // shares of fewer rows are not shown; most points of the error along the stream
  const SILENT = 5; // seconds without an event until the page reports it
  const OWN = ["/", "/events", "/metrics", "/docs", "/openapi.json"]; // requests that do not concern models
  const models = new Map(); // name → { data, samples }
  const ticks = []; // state of the server over time: { time, requests, rows, lag, waiting }
  let [chosen, trouble, heard] = [null, "", 0];

  // Theme -------------------------------------------------------------------------------------------------------------

  const stored = (storage, key, value) => {
    try { // a local file may have no storage
      if (value === undefined) return storage().getItem(key);
      storage().setItem(key, value);
    } catch { /* the choice is not stored */ }
    return null;
  };
  const dark = matchMedia("(prefers-color-scheme: dark)");
  function paint() {
    const theme = stored(() => localStorage, "theme") || (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    find("theme").textContent = theme === "dark" ? "Light" : "Dark";
    find("theme").setAttribute("aria-label", `Switch to ${theme === "dark" ? "light" : "dark"} colors`);
  }
  find("theme").addEventListener("click", () => {
    stored(() => localStorage, "theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    paint();
  });
  dark.addEventListener("change", paint);
  paint();

  // Charts and tables --------------------------------------------------------------------------------------------------

  const card = (wide, title) => {
    const section = make("section", { class: wide ? "wide" : null, "aria-label": title });
    find("cards").append(section);
    return section;
  };
  const chart = (title, options) => {
    const section = card(false, title);
    return Object.assign(new Chart(section, title, options), { section });
  };
  const list = (title, wide = false) => {
    const section = card(wide, title);
    const held = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": title });
    section.append(make("h2", {}, title), held);
    return { section, held };
  };
  const [shown, tables] = [{}, {}]; // in the order of the page
  shown.error = chart("Error along the stream", { x: "rows", y: share, least: 0 });
  shown.auc = chart("AUC since the start", { x: "rows", y: short });
  tables.rivals = list("Champion and challengers", true);
  tables.weights = list("Largest weights over time");
  shown.calibration = chart("Calibration", { x: "predicted", y: share, showX: share, least: 0, most: 1, even: true });
  shown.rate = chart("Throughput per second", { x: "time", showX: clock, least: 0 });
  shown.latency = chart("Latency of requests, ms", { x: "time", showX: clock, least: 0 });
  shown.loss = chart("Log-loss since the start", { x: "rows", y: short });
  shown.nnz = chart("Non-zero weights", { x: "rows", least: 0 });
  shown.lag = chart("Journal and labels", { x: "time", showX: clock, least: 0 });
  tables.versions = list("Versions");
  tables.requests = list("Requests");

  function tile(key, name, value, text, more) {
    let cell = document.querySelector(`[data-key="${key}"]`);
    if (!cell) {
      cell = make("dd", { "data-key": key });
      find("tiles").append(make("div", {}, make("dt", {}, name), cell));
    }
    cell.parentElement.hidden = value === null || value === undefined;
    if (cell.dataset.value === String(value) && !more) return;
    cell.dataset.value = value;
    cell.replaceChildren(text, ...(more ? [" ", make("small", {}, more)] : []));
  }

  const whole = (value) => new Intl.NumberFormat("en").format(value);

  // Requests per second and latency quantiles between two ticks.
  const ofModels = (requests) => Object.entries(requests || {}).filter(([path]) => !OWN.includes(path) && !path.startsWith("/dashboard"));
  const answered = (each) => Object.values(each.statuses).reduce((sum, many) => sum + many, 0);
  function between(before, now) {
    const seconds = Math.max(now.time - before.time, 1e-3);
    let [many, within] = [0, new Map()];
    for (const [path, each] of ofModels(now.requests)) {
      const old = (before.requests || {})[path] || { statuses: {}, within: {} };
      many += answered(each) - answered(old);
      for (const [bound, count] of Object.entries(each.within)) {
        within.set(bound, (within.get(bound) || 0) + count - (old.within[bound] || 0));
      }
    }
    const steps = [...within].map(([bound, count]) => [bound === "+Inf" ? Infinity : Number(bound), count]).sort((a, b) => a[0] - b[0]);
    const all = steps.length ? steps.at(-1)[1] : 0;
    const quantile = (part) => {
      if (all <= 0) return null;
      let [low, under] = [0, 0];
      for (const [bound, count] of steps) {
        if (count >= part * all) return 1e3 * (bound === Infinity ? low : low + ((bound - low) * (part * all - under)) / Math.max(count - under, 1e-9));
        [low, under] = [bound, count];
      }
      return null;
    };
    return { rate: Math.max(many, 0) / seconds, rows: Math.max(now.rows - before.rows, 0) / seconds, p50: quantile(0.5), p99: quantile(0.99) };
  }

  function showServer() {
    const served = ticks.some((tick) => tick.requests);
    for (const each of [shown.latency, shown.lag, tables.requests]) each.section.hidden = !served;
    shown.rate.section.hidden = ticks.length < 2;
    const steps = ticks.slice(1).map((tick, k) => [tick.time, between(ticks[k], tick)]);
    const series = (name, colour, key) => ({ name, colour, points: steps.map(([time, step]) => [time, step[key]]) });
    shown.rate.draw([...(served ? [series("requests", "s1", "rate")] : []), series("rows learned", "s2", "rows")]);
    const last = steps.length ? steps.at(-1)[1] : {};
    tile("rate", "Rows learned per second", steps.length ? last.rows : null, short(last.rows));
    if (!served) return;
    tile("requests", "Requests per second", steps.length ? last.rate : null, short(last.rate));
    tile("p99", "Latency p99", last.p99, `${short(last.p99)} ms`, `p50 ${short(last.p50)} ms`);
    shown.latency.draw([{ ...series("p50", "s1", "p50"), points: steps.filter(([, step]) => step.p50 !== null).map(([time, step]) => [time, step.p50]) },
      { name: "p99", colour: "s2", points: steps.filter(([, step]) => step.p99 !== null).map(([time, step]) => [time, step.p99]) }]);
    const over = (name, colour, key) => ({ name, colour, points: ticks.map((tick) => [tick.time, tick[key]]) });
    shown.lag.draw([over("entries not learned yet", "s1", "lag"), over("rows waiting for labels", "s2", "waiting")]);
    const now = ticks.at(-1).requests;
    const refused = (each) => Object.entries(each.statuses).reduce((sum, [status, many]) => sum + (status >= "400" ? many : 0), 0);
    const rows = ofModels(now).sort().map(([path, each]) => [path, whole(answered(each)), whole(refused(each)),
      short((1e3 * each.seconds) / Math.max(answered(each), 1))]);
    const outcomes = Object.entries(ticks.at(-1).labels || {}).map(([outcome, many]) => [outcome, whole(many)]);
    tables.requests.held.replaceChildren(rows.length ? table(["path", "answered", "refused", "mean ms"], rows, "Since the server started")
      : make("p", { class: "empty" }, "No requests yet."), ...(outcomes.length ? [table(["rows with ids", "count"], outcomes, "Delayed labels")] : []));
  }

  // Parts of the stream between samples, if the data do not have the error along the stream.
  function stretchesOf(samples) {
    return samples.slice(1).map((sample, k) => [sample.rows, sample.rows - samples[k].rows, Math.max(sample.error * sample.rows - samples[k].error * samples[k].rows, 0)])
      .filter(([, rows]) => rows > 0);
  }

  // Merge parts of a stream until a screen can show them.
  function merged(stretches) {
    const each = Math.ceil(stretches.length / STRETCHES);
    const parts = [];
    for (let k = 0; k < stretches.length; k += each) {
      const some = stretches.slice(k, k + each);
      parts.push([some.at(-1)[0], ...[1, 2].map((part) => some.reduce((sum, stretch) => sum + stretch[part], 0))]);
    }
    return parts;
  }

  function showModel() {
    const { data, samples } = models.get(chosen) || { data: { status: {} }, samples: [] };
    const status = data.status || {}, progressive = status.progressive || {};
    const some = samples.filter((sample) => sample.rows >= FEW);
    const by = (key) => (some.length ? some : samples).map((sample) => [sample.rows, sample[key]]);
    find("about").textContent = data.algorithm ? `${data.algorithm}, ${data.classes.length} classes: ${data.classes.slice(0, 6).join(", ")}${data.classes.length > 6 ? " …" : ""}` : "";
    tile("rows", "Rows learned", status.rows, whole(status.rows || 0));
    tile("error", "Progressive error", progressive.error, share(progressive.error), progressive.baseline === undefined ? "" : `baseline ${share(progressive.baseline)}`);
    const recent = status.recent || {};
    tile("recent", "Recent error", recent.error, share(recent.error), recent.rows ? `last ${short(recent.rows)} rows` : "");
    tile("learning", "Learning", status.learning, status.learning ? "yes" : "stopped", status.failure || "");
    tile("auc", "AUC", progressive.auc, exact(progressive.auc));
    tile("log_loss", "Log-loss", progressive.log_loss, exact(progressive.log_loss));
    const calibration = data.calibration || {};
    tile("calibration", "Calibration error", calibration.error, share(calibration.error));
    tile("nnz", "Non-zero weights", status.nnz, whole(status.nnz || 0), status.features ? `of ${short(status.features)} features` : "");
    tile("drift", "Drift alarms", status.drift, whole(status.drift || 0));
    tile("lag", "Journal lag", status.lag, whole(status.lag || 0), "entries");
    tile("waiting", "Waiting for labels", status.waiting, whole(status.waiting || 0), status.oldest ? `oldest ${short(status.oldest)} s` : "");
    const source = status.source || {};
    tile("source", "Source lag", source.lag, whole(source.lag || 0), source.dead_letters ? `${whole(source.dead_letters)} dead letters` : "");
    tile("refused", "Rows in quarantine", status.refused, whole(status.refused || 0));
    tile("version", "Version", status.version, whole(status.version || 0));

    const marks = (data.drifts || []).map(([row]) => row);
    const curve = merged(data.curve && data.curve.length ? data.curve : stretchesOf(some)).map(([until, rows, wrong]) => [until, wrong / rows]);
    shown.error.draw([...(curve.length ? [{ name: "in each part", colour: "s1", points: curve }] : []),
      { name: "since the start", colour: "s2", points: by("error") }], marks);
    shown.auc.section.hidden = !samples.some((sample) => sample.auc !== null);
    shown.auc.draw([{ name: "AUC", colour: "s1", points: by("auc") }], marks);
    shown.loss.section.hidden = !samples.some((sample) => sample.log_loss !== null);
    shown.loss.draw([{ name: "log-loss", colour: "s3", points: by("log_loss") }], marks);
    shown.nnz.draw([{ name: "non-zero weights", colour: "s4", points: by("nnz") }]);
    const observed = calibration.observed || [];
    const bins = calibration.predicted || calibration.score || [];
    Object.assign(shown.calibration, calibration.predicted ? { x: "predicted", even: true, showX: share } : { x: "score", even: false, showX: short });
    shown.calibration.section.hidden = !observed.length;
    shown.calibration.draw([{ name: "share of positives", colour: "s1", dots: true, points: bins.map((x, k) => [x, observed[k]]) }]);
    showWeights(samples);
    showRivals(data, progressive);
    showVersions(data);
  }

  function showWeights(samples) {
    const top = samples.length ? Object.entries(samples.at(-1).top) : [];
    tables.weights.section.hidden = !samples.length;
    const some = samples.slice(-120);
    const rows = top.map(([name, weight]) => {
      const values = some.map((sample) => sample.top[name] ?? null);
      const first = values.find((value) => value !== null);
      return make("tr", { "data-weight": name }, make("th", { scope: "row", class: "name" }, name), make("td", {}, short(weight)),
        make("td", {}, `${weight >= first ? "+" : "−"}${short(Math.abs(weight - first))}`), make("td", {}, spark(values)));
    });
    const weights = table(["feature", "weight", "change", "history"], [], "By absolute value. The change is since the weight became one of the largest, or since the oldest sample");
    weights.tBodies[0].append(...rows);
    tables.weights.held.replaceChildren(top.length ? weights : make("p", { class: "empty" }, "No weights yet."));
  }

  function showRivals(data, progressive) {
    const rivals = data.challengers || [];
    tables.rivals.section.hidden = !data.challengers;
    if (!data.challengers) return;
    const numbers = (report) => [report.rows === undefined ? "–" : whole(report.rows), share(report.error), short(report.auc), short(report.log_loss)];
    const rows = [[`${data.algorithm || ""} (champion)`, ...numbers(progressive), "", ""]];
    for (const each of rivals) {
      const of = each.progressive, on = each.champion;
      const better = of.error === undefined || on.error === undefined || of.error === null || on.error === null ? "–" : `${of.error <= on.error ? "−" : "+"}${share(Math.abs(of.error - on.error))}`;
      rows.push([`${each.name}: ${each.algorithm}${each.out ? ` (stopped: ${each.out})` : ""}`, ...numbers(of), share(on.error), better]);
    }
    const rivalTable = table(["model", "rows", "error", "AUC", "log-loss", "champion’s error on the same rows", "difference"], rows,
      rivals.length ? "Progressive metrics (each row is predicted, then learned)" : "No challengers. Add one with: thinstream models challenge MODEL NAME --algorithm …");
    rivalTable.tBodies[0].rows[0].className = "champion";
    tables.rivals.held.replaceChildren(rivalTable);
  }

  function showVersions(data) {
    tables.versions.section.hidden = !data.versions;
    if (!data.versions) return;
    const rows = data.versions.map((each) => [whole(each.version), each.time ? new Date(1000 * each.time).toLocaleString("en-GB") : "–", each.cause,
      each.rows === null ? "–" : whole(each.rows), share(each.error), each.nnz === null ? "–" : whole(each.nnz)]);
    tables.versions.held.replaceChildren(rows.length ? table(["version", "saved", "cause", "rows", "error", "non-zero weights"], rows, "Newest first. Roll back with: thinstream models rollback MODEL VERSION")
      : make("p", { class: "empty" }, "No versions yet."));
  }

  // New data ----------------------------------------------------------------------------------------------------------

  function say(state, text) {
    if (find("state").textContent !== text) find("state").textContent = text;
    find("state").dataset.state = state;
  }

  function take(kind, data) {
    heard = Date.now();
    trouble = data.trouble || "";
    for (const [name, model] of Object.entries(data.models || {})) {
      const entry = models.get(name) || { samples: [] };
      const last = entry.samples.length ? entry.samples.at(-1).number : -1;
      const before = entry.data && entry.data.status;
      entry.samples.push(...(model.samples || []).filter((sample) => sample.number > last));
      if (entry.samples.length > MOST) entry.samples = entry.samples.filter((_, k) => k % 2 || k > MOST / 2);
      entry.data = model;
      models.set(name, entry);
      if (before && model.status.drift > before.drift) find("news").textContent = `${name}: the error has risen (drift alarm ${model.status.drift})`;
    }
    if (data.models) for (const name of [...models.keys()]) if (!(name in data.models)) models.delete(name);
    if (!models.has(chosen)) chosen = [...models.keys()][0] ?? null;
    const status = chosen === null ? {} : models.get(chosen).data.status || {};
    if (data.models) ticks.push({ time: data.time, requests: data.requests, rows: status.rows || 0, lag: status.lag || 0, waiting: status.waiting || 0, labels: status.labels });
    if (ticks.length > MOST) ticks.shift();
    const names = [...models.keys()];
    find("choose").hidden = names.length < 2;
    if ([...find("model").options].map((each) => each.value).join("\n") !== names.join("\n")) {
      find("model").replaceChildren(...names.map((name) => make("option", { value: name, selected: name === chosen }, name)));
    }
    show();
    if (kind === "report") return;
    const failure = status.failure || status.trouble || (status.source || {}).trouble || trouble;
    if (data.over) say("over", "the run has ended");
    else say(failure ? "trouble" : "live", failure || "live");
  }

  let waiting = false;
  function show() {
    if (waiting || document.hidden) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      showModel();
      showServer();
    });
  }
  document.addEventListener("visibilitychange", show);
  find("model").addEventListener("change", (event) => {
    chosen = event.target.value;
    ticks.splice(0, ticks.length - 1);
    if (ticks.length) ticks[0].rows = models.get(chosen).data.status.rows || 0;
    show();
  });

  // Events with fetch, because EventSource cannot send a token -------------------------------------------------------

  async function listen() {
    const token = stored(() => sessionStorage, "token");
    const answer = await fetch("/events", { headers: token ? { Authorization: `Bearer ${token}` } : {}, cache: "no-store" });
    if (answer.status === 401 || answer.status === 403) return ask(token, (await answer.json()).error);
    if (!answer.ok) throw new Error(`the server returned ${answer.status}`);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let held = ""; ;) {
      const { value, done } = await reader.read();
      if (done) return "ended";
      const events = (held + value).split("\n\n");
      held = events.pop();
      for (const event of events) {
        const fields = Object.fromEntries(event.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]));
        if (fields.data) take(fields.event, JSON.parse(fields.data));
        if (fields.event === "over") return "over";
      }
    }
  }

  function ask(token, why) {
    find("ask").hidden = false;
    find("main").hidden = true;
    find("refused").textContent = token ? why : "";
    say("waiting", "waiting for a token");
    find("token").focus();
    return "asked";
  }
  find("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    stored(() => sessionStorage, "token", find("token").value);
    find("token").value = "";
    find("ask").hidden = true;
    find("main").hidden = false;
    keep();
  });

  async function keep() {
    for (let pause = 250; ; pause = Math.min(2 * pause, 5000)) {
      try {
        const outcome = await listen();
        if (outcome === "asked" || outcome === "over") return;
      } catch { /* the server cannot be reached */ }
      if (Date.now() - heard < 5000) pause = 250;
      say("lost", "the server cannot be reached, retrying …");
      await new Promise((resolve) => { setTimeout(resolve, pause); });
    }
  }

  setInterval(() => { // the connection is open, but no events come
    const silent = Math.round((Date.now() - heard) / 1000);
    if (silent > SILENT && find("state").dataset.state === "live" && !embedded) say("trouble", `no data for ${silent} seconds`);
  }, 1000);

  const embedded = find("data");
  if (embedded) {
    const data = JSON.parse(embedded.textContent);
    document.title = data.title;
    say("report", data.title);
    for (const tick of data.ticks || []) ticks.push(tick);
    take("report", data);
  } else keep();
})();
