"use strict";
// Choosing one of several figures, and reading a message of a diagram with the pointer or the arrow keys.
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
