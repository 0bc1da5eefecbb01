// The palette: Ctrl or Cmd and K, a few letters, Enter. The server finds; here are only the keys.
(() => {
  "use strict";
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  document.querySelectorAll("[data-local-zone]").forEach((field) => {
    field.value = zone;
  });

  const dialog = document.querySelector("#palette");
  if (!dialog) return;
  const box = document.querySelector("#palette-box");
  const form = document.querySelector("#palette-form");
  const hits = () => [...document.querySelectorAll("#palette [role=option]")];
  const text = () => document.querySelector("#palette #palette-hits").dataset.text;
  let shown = null; // the answer that is on the screen
  let isGoing = false; // Enter was pressed before the answer to the last letter was there

  function choose(link) {
    for (const one of hits()) one.setAttribute("aria-selected", String(one === link));
    if (link) {
      box.setAttribute("aria-activedescendant", link.id);
      link.scrollIntoView({ block: "nearest" });
    } else box.removeAttribute("aria-activedescendant");
  }
  const chosen = () => hits().find((one) => one.getAttribute("aria-selected") === "true");

  function open() {
    if (dialog.open || document.querySelector("dialog[open]")) return;
    isGoing = false;
    dialog.showModal();
    box.select();
    htmx.trigger(form, "kite:palette");
  }
  function go() {
    const link = chosen();
    if (!link) return;
    dialog.close();
    location.assign(link.href);
  }

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open();
    }
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-palette]")) open();
  });
  box.addEventListener("input", () => {
    isGoing = false;
  });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      const all = hits();
      const next = all.indexOf(chosen()) + step;
      choose(all[(next + all.length) % all.length]);
    } else if (event.key === "Enter") {
      if (text() === box.value.trim()) go();
      else isGoing = true;
    } else return;
    event.preventDefault();
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("htmx:after:swap", () => {
    const list = dialog.querySelector("#palette-hits");
    if (!dialog.open || list === shown) return; // it was another part of the page
    shown = list;
    choose(hits()[0]);
    if (isGoing && text() === box.value.trim()) go();
  });

  document.querySelectorAll("[data-palette]").forEach((button) => {
    button.hidden = false;
  });
})();
