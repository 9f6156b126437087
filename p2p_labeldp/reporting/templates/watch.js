"use strict";
// Shows what the run sends. Texts are set as texts; the diagram alone is markup, escaped where it was drawn.
const find = (selector) => document.querySelector(selector);
const number = (value) => Math.round(value).toLocaleString("en-US");
const seconds = (value) => (value < 100 ? value.toFixed(1) : number(value)) + " s";
let source = null;
let state = null;
let reported = false;

const make = (name, text, className) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
};

// As many children as there are rows, changed in place: what has the focus, or is being read, stays.
const rows = (parent, count, create) => {
  while (parent.children.length > count) parent.lastElementChild.remove();
  while (parent.children.length < count) parent.append(create());
  return [...parent.children];
};

const set = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

const cells = (names, numeric) => () => {
  const row = make("tr");
  names.forEach((name, place) => {
    const cell = make(place ? "td" : "th", "", numeric.includes(place) ? "number" : "");
    if (place) cell.dataset.name = name;
    else cell.scope = "row";
    row.append(cell);
  });
  return row;
};

const tiles = (found) => {
  rows(find("#tiles"), found.length, () => {
    const tile = make("li");
    tile.append(make("b"), make("span"), make("small"));
    return tile;
  }).forEach((tile, place) => found[place].forEach((text, part) => set(tile.children[part], text)));
};

const words = () => {
  if (state.ended) return state.ended.words;
  if (!state.control) return "Running.";
  if (state.stage < 1) return `Loading the data${state.control.paused ? "; the run will wait at its first message" : ""}.`;
  if (state.stage > 3) return "All messages are sent.";
  if (state.control.paused) return "Paused. The run waits for you; if you close this page, it goes on.";
  return state.control.pace ? `Running at ${number(state.control.pace)} messages a second.` : "Running.";
};

const showStages = () => {
  [...find("#stages").children].forEach((stage, place) => {
    stage.className = place < state.stage ? "past" : "";
    if (place === state.stage && !state.ended) stage.setAttribute("aria-current", "step");
    else stage.removeAttribute("aria-current");
  });
};

const showKinds = () => {
  const most = Math.max(1, ...state.kinds.map((kind) => kind[2]));
  rows(find(".kinds tbody"), state.kinds.length, () => {
    const row = cells(["kind", "sent", "a second", "share"], [1, 2])();
    row.lastElementChild.append(make("span", "", "bar"));
    return row;
  }).forEach((row, place) => {
    const [kind, purpose, count, rate] = state.kinds[place];
    row.title = purpose;
    set(row.children[0], kind);
    set(row.children[1], number(count));
    set(row.children[2], rate === null ? "–" : number(rate));
    row.querySelector(".bar").style.width = `${(100 * count) / most}%`;
  });
};

const showClusters = () => {
  const found = state.clusters || { each: [], full: 0, all: 0 };
  rows(find(".fills"), found.each.length, () => {
    const item = make("li");
    const track = make("span", undefined, "track");
    track.append(make("span"));
    item.append(make("span"), track);
    return item;
  }).forEach((item, place) => {
    const [cluster, done, size] = found.each[place];
    set(item.children[0], `${cluster}: ${number(done)} of ${number(size)}`);
    item.querySelector(".track span").style.width = `${(100 * done) / size}%`;
  });
  const left = found.all - found.each.length;
  set(find("#clusters .more"), found.all ? `${number(found.full)} of ${number(found.all)} are full${left ? `; ${number(left)} are not shown` : ""}.` : "Users are assigned to clusters once all have joined.");
};

const showFaults = () => {
  const table = find("#faults tbody");
  if (!table) return;
  rows(table, state.faults.length, cells(["rule", "fired"], [1])).forEach((row, place) => {
    set(row.children[0], state.faults[place][0]);
    set(row.children[1], number(state.faults[place][1]));
  });
  const sent = state.delivery && "sent_again" in state.delivery ? state.delivery : null;
  const [down, back] = state.away || [0, 0];
  set(find("#delivery"), sent ? `${number(sent.sent_again)} messages were sent again, ${number(sent.duplicates_dropped)} copies dropped, ${number(sent.lost_for_good)} lost for good. Users down now: ${number(down)}; back again: ${number(back)}.` : "");
};

const showGuarantees = () => {
  const found = state.guarantees;
  if (!found) return;
  set(find("#guarantees-title"), `${found.title}:`);
  find("#guarantees table").hidden = false;
  const names = ["against", "epsilon", "delta", "method"];
  rows(find("#guarantees tbody"), found.rows.length, cells(names, [])).forEach((row, place) => {
    found.rows[place].forEach((text, part) => set(row.children[part], text));
  });
};

const showNodes = () => {
  const names = ["node", "state", "connections", "restarts", "waits for"];
  rows(find("#nodes tbody"), state.nodes.length, () => {
    const row = cells(names, [2, 3])();
    row.children[1].append(make("span", "", "state"));
    return row;
  }).forEach((row, place) => {
    const node = state.nodes[place];
    set(row.children[0], node.name);
    const mark = row.querySelector(".state");
    mark.className = `state ${node.mark}`;
    set(mark, node.state);
    set(row.children[2], node.connected === null ? "–" : number(node.connected));
    set(row.children[3], number(node.restarts));
    set(row.children[4], node.waits_for || "–");
  });
  rows(find(".events"), state.events.length, () => {
    const item = make("li");
    item.append(make("time"), make("span"));
    return item;
  }).forEach((item, place) => {
    const [at, text, bad] = state.events[place];
    set(item.children[0], seconds(at));
    set(item.children[1], text);
    item.children[1].className = bad ? "bad" : "";
  });
};

const showControls = () => {
  const { paused, pace } = state.control;
  const over = Boolean(state.ended) || state.stage < 1 || state.stage > 3; // no messages yet, or any more
  set(find("#play"), paused ? "Play" : "Pause");
  for (const button of document.querySelectorAll("#controls button")) button.disabled = over;
  find("#pace").disabled = over;
  if (document.activeElement !== find("#pace") && !paused) find("#pace").value = String(pace);
  find("#last").hidden = !state.last;
  set(find("#last"), state.last);
};

const showChoices = () => {
  const list = find("#cluster");
  if (!list || list.options.length === state.choices.length) return;
  const chosen = list.value;
  list.replaceChildren(...state.choices.map(([cluster]) => new Option(`cluster ${cluster}`, cluster)));
  if (state.choices.some(([cluster]) => String(cluster) === chosen)) list.value = chosen;
  list.disabled = !state.choices.length;
};

// The report is taken into this page's memory, so that it can be opened when the run has gone.
const takeReport = async () => {
  if (reported || !state.ended || !state.ended.report) return;
  reported = true;
  try {
    const found = await fetch("report", { cache: "no-store" });
    if (!found.ok) return;
    const link = find("#report");
    link.href = URL.createObjectURL(new Blob([await found.text()], { type: "text/html;charset=utf-8" }));
    link.target = "_blank";
    link.hidden = false;
  } catch {
    // The words name the file.
  }
};

const showEnd = () => {
  const found = state.ended;
  const box = find("#ended");
  box.hidden = !found;
  if (!found) return;
  box.classList.toggle("finished", found.how === "finished");
  set(find("#ended-title"), found.how === "finished" ? "Finished" : "Ended without a result");
  const parts = [`${found.words} It took ${seconds(found.seconds)}.`];
  if (found.accuracy !== null && found.accuracy !== undefined) parts.push(`Test accuracy ${found.accuracy.toFixed(4)}.`);
  parts.push(...(found.warnings || []).map((warning) => `Warning: ${warning}.`));
  if (found.folder) parts.push(`Everything is in ${found.folder}.`);
  set(find("#ended-words"), parts.join(" "));
  takeReport();
};

const show = () => {
  set(find("#status"), words());
  showStages();
  showGuarantees();
  showEnd();
  if (document.body.dataset.kind === "simulation") {
    showControls();
    showKinds();
    showClusters();
    showFaults();
    showChoices();
    const rate = state.kinds.reduce((sum, kind) => sum + (kind[3] || 0), 0);
    const round = state.round && state.round[1] > 1 ? `round ${state.round[0]} of ${state.round[1]}` : "";
    tiles([
      [number(state.sent), "messages sent", state.ended || state.control.paused ? "" : `${number(rate)} a second`],
      [state.users ? number(state.users[0]) : "–", "users done with this stage", state.users ? `of ${number(state.users[1])}` : ""],
      [state.clusters ? number(state.clusters.full) : "–", "clusters full", state.clusters ? `of ${number(state.clusters.all)}` : ""],
      [seconds(state.virtual), "virtual time", round],
      [seconds(state.ended ? state.ended.seconds : state.seconds), "since the start", "wall clock"],
    ]);
  } else {
    showNodes();
    showKinds();
    showClusters();
    const rate = state.kinds.reduce((sum, kind) => sum + (kind[3] || 0), 0);
    tiles([
      [number(state.up), "nodes up", `of ${number(state.nodes.length)}`],
      [number(state.restarts), "restarts", ""],
      [state.users ? number(state.users[0]) : "–", state.users ? state.users[2] : "hosts have come", state.users ? `of ${number(state.users[1])}` : ""],
      [state.clusters ? number(state.clusters.full) : "–", "clusters full", state.clusters ? `of ${number(state.clusters.all)}` : ""],
      [number(state.sent), "messages sent", state.ended ? "" : `${number(rate)} a second`],
      [seconds(state.ended ? state.ended.seconds : state.seconds), "since the start", ""],
    ]);
  }
};

const draw = (figure) => {
  const place = find("#diagram");
  if (!place) return;
  const drawing = document.createElement("template");
  drawing.innerHTML = figure.drawing;
  place.replaceChildren(make("h3", figure.title), drawing.content, make("figcaption", figure.caption));
  place.querySelector("svg").addEventListener("pointerover", (event) => {
    const message = event.target.closest(".message");
    if (message && message.querySelector("title")) set(find("#readout"), message.querySelector("title").textContent);
  });
};

const listen = () => {
  if (source) source.close();
  const list = find("#cluster");
  source = new EventSource(list && list.value ? `events?cluster=${list.value}` : "events");
  source.addEventListener("state", (event) => {
    state = JSON.parse(event.data);
    show();
  });
  source.addEventListener("diagram", (event) => draw(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    if (state && state.ended) {
      source.close(); // the run has gone, and said so
      return;
    }
    set(find("#status"), "The connection is lost: the program was stopped, or is too busy. Trying again …");
    for (const button of document.querySelectorAll("#controls button")) button.disabled = true;
  });
};

const order = (command) =>
  fetch("control", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(command) }).catch(() => {});

if (find("#controls")) {
  const pace = () => Number(find("#pace").value);
  find("#play").addEventListener("click", () => order(state.control.paused ? { do: "play", pace: pace() } : { do: "pause" }));
  find("#step").addEventListener("click", () => order({ do: "step" }));
  find("#step-stage").addEventListener("click", () => order({ do: "step", to: "stage" }));
  find("#pace").addEventListener("change", () => {
    if (state && !state.control.paused) order({ do: "play", pace: pace() });
  });
  if (find("#cluster")) {
    find("#step-cluster").addEventListener("click", () => order({ do: "step", to: "cluster", cluster: Number(find("#cluster").value) }));
    find("#cluster").addEventListener("change", listen);
  }
}
listen();
