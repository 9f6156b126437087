"use strict";
// Choosing one of several figures, reading a message or a mark with the pointer or the arrow keys, sorting and filtering a ranking.
for (const chooser of document.querySelectorAll("[data-chooser]")) {
  const selects = [...chooser.querySelectorAll("select")];
  const panels = [...chooser.querySelectorAll("[data-key]")];
  const readout = chooser.querySelector(".readout");
  const invitation = readout ? readout.textContent : "";
  let marked = null;

  const mark = (message) => {
    if (marked) marked.classList.remove("on");
    marked = message;
    if (message) message.classList.add("on");
    if (readout) readout.textContent = message ? message.querySelector("title").textContent : invitation;
  };

  const show = () => {
    const key = selects.map((select) => select.value).join(" ");
    for (const panel of panels) panel.hidden = panel.dataset.key !== key;
    mark(null);
  };

  for (const select of selects) select.addEventListener("change", show);
  for (const button of chooser.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => {
      const [select] = selects;
      const count = select.options.length;
      select.selectedIndex = (select.selectedIndex + Number(button.dataset.step) + count) % count;
      show();
    });
  }

  if (readout) {
    for (const panel of panels) {
      const drawing = panel.querySelector("svg");
      const messages = [...drawing.querySelectorAll(".message")].filter((each) => each.querySelector("title"));
      drawing.setAttribute("tabindex", "0");
      drawing.addEventListener("pointerover", (event) => {
        const message = event.target.closest(".message");
        if (message && message.querySelector("title")) mark(message);
      });
      drawing.addEventListener("keydown", (event) => {
        const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
        if (!step || !messages.length) return;
        event.preventDefault();
        const place = messages.indexOf(marked);
        mark(messages[place < 0 ? (step > 0 ? 0 : messages.length - 1) : (place + step + messages.length) % messages.length]);
      });
    }
    readout.hidden = false;
  }
  chooser.querySelector(".controls").hidden = false;
  show();
}

for (const figure of document.querySelectorAll("figure")) {
  const marks = [...figure.querySelectorAll("svg .dot")].filter((each) => each.querySelector("title"));
  if (!marks.length) continue;
  const said = document.createElement("p");
  said.className = "readout";
  said.setAttribute("role", "status");
  said.textContent = "Point at a mark to read it.";
  figure.querySelector("svg").after(said);
  for (const mark of marks) {
    mark.addEventListener("pointerover", () => {
      for (const other of marks) other.classList.toggle("on", other === mark);
      said.textContent = mark.querySelector("title").textContent;
    });
  }
}

for (const ranked of document.querySelectorAll("[data-ranked]")) {
  const body = ranked.querySelector("tbody");
  const rows = [...body.rows];
  const heads = [...ranked.querySelectorAll("thead th")];
  const chosen = ranked.querySelector("[data-sort]");
  const filters = [...ranked.querySelectorAll("[data-filter]")];
  const count = ranked.querySelector(".count");

  const sort = (column, falling) => {
    const key = (row) => row.cells[column].dataset.key ?? row.cells[column].textContent;
    const both = (a, b) => (isNaN(a) || isNaN(b) ? String(a).localeCompare(String(b)) : a - b);
    rows.sort((a, b) => (falling ? both(key(b), key(a)) : both(key(a), key(b))));
    body.append(...rows);
    heads.forEach((head, place) => {
      if (place === column) head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    chosen.value = String(column);
  };

  const filter = () => {
    let shown = 0;
    for (const row of rows) {
      row.hidden = filters.some(
        (each) => each.value && !row.dataset["f" + each.dataset.filter].split("|").includes(each.value)
      );
      if (!row.hidden) shown += 1;
    }
    count.textContent = `${shown} of ${rows.length} rows`;
  };

  heads.forEach((head, column) => {
    if (!head.textContent) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sort(column, head.getAttribute("aria-sort") === "ascending"));
    head.replaceChildren(button);
  });
  chosen.addEventListener("change", () => sort(Number(chosen.value), false));
  for (const each of filters) each.addEventListener("change", filter);
  ranked.querySelector(".controls").hidden = false;
  count.hidden = false;
  filter();
}
