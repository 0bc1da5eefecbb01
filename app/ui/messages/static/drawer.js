// A drawer beside a list of messages. A link with data-drawer in a row opens its message there, and
// so does the row itself; without script the link leads to its page. The address holds the message
// as ?message=topic:queue:offset, so that it can be shared, and going back closes the drawer.
(() => {
  "use strict";
  const drawer = document.getElementById("drawer");
  if (!drawer?.show) return;
  const content = document.getElementById("message-drawer");
  const place = drawer.querySelector("[data-drawer-place]");
  const words = place.dataset.drawerPlace;
  const isNarrow = matchMedia("(max-width: 760px)");
  let current = ""; // the message in the drawer
  let index = 0; // of its row, for a list that goes on without it
  let opener = null;
  let view = ""; // of bodies, once somebody chose one

  const links = () =>
    [...document.querySelectorAll("tr:has([data-drawer])")].map((row) => row.querySelector("[data-drawer]"));
  const nameOf = (link) => link.dataset.drawer.split("/").slice(2).map(decodeURIComponent).join(":");
  const inAddress = () => new URL(location).searchParams.get("message") ?? "";
  function addressOf(name) {
    const address = new URL(location);
    if (name) address.searchParams.set("message", name);
    else address.searchParams.delete("message");
    return address;
  }
  function pathOf(name) {
    const [, topic, queue, offset] = /^(.+):(\d+):(\d+)$/.exec(name) ?? [];
    return topic ? `/messages/${encodeURIComponent(topic)}/${queue}/${offset}` : "";
  }

  // Which row is in the drawer, and where in the list that is.
  function mark() {
    const all = links();
    const at = all.findIndex((link) => nameOf(link) === current);
    if (at >= 0) index = at;
    all.forEach((link, each) => {
      const row = link.closest("tr");
      if (each === at) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    });
    place.textContent =
      at < 0
        ? ""
        : words.replace("{n}", (at + 1).toLocaleString("en")).replace("{all}", all.length.toLocaleString("en"));
    for (const button of drawer.querySelectorAll("[data-drawer-step]")) {
      button.disabled = !all[next(all, Number(button.dataset.drawerStep), at)];
    }
    return all[at];
  }
  // A row that is gone left its place to the one after it.
  const next = (all, step, at = all.findIndex((link) => nameOf(link) === current)) =>
    at < 0 && step > 0 ? Math.min(index, all.length - 1) : (at < 0 ? index : at) + step;

  function show(name) {
    const path = pathOf(name);
    if (!path) return;
    current = name;
    if (!drawer.open) {
      opener = document.activeElement;
      if (isNarrow.matches) drawer.showModal();
      else drawer.show();
    }
    mark()?.closest("tr").scrollIntoView({ block: "nearest" });
    content.setAttribute("aria-busy", "true");
    const address = view ? `${path}?view=${view}` : path;
    htmx.ajax("GET", address, { source: content, target: content });
  }

  function open(link) {
    const name = nameOf(link);
    if (drawer.open) history.replaceState(history.state, "", addressOf(name));
    else {
      // The list is still there when somebody comes back to it: nothing to load again.
      if (history.state?.htmx) history.replaceState(null, "");
      history.pushState({ isDrawer: true }, "", addressOf(name));
    }
    show(name);
  }

  function step(by) {
    const all = links();
    if (drawer.open) {
      const link = all[next(all, by)];
      if (link) open(link);
    } else {
      const row = document.activeElement?.closest("tr");
      const at = all.findIndex((link) => link.closest("tr") === row);
      all[at < 0 ? 0 : at + by]?.focus();
    }
  }

  drawer.addEventListener("close", () => {
    const link = mark() ?? opener;
    current = "";
    mark();
    content.replaceChildren();
    link?.focus();
    if (!inAddress()) return;
    if (history.state?.isDrawer) history.back();
    else history.replaceState(null, "", addressOf(""));
  });
  addEventListener("popstate", () => {
    const name = inAddress();
    if (name) show(name);
    else if (drawer.open) drawer.close();
  });

  document.addEventListener("click", (event) => {
    const target = event.target;
    const button = target.closest("[data-drawer-step]");
    if (button) step(Number(button.dataset.drawerStep));
    const format = target.closest("#drawer .views a");
    if (format) view = new URL(format.href).searchParams.get("view");
    if (event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey)
      return;
    const inside = target.closest("a, button, input, label, select, summary, .tick");
    const isRow = !inside && !String(getSelection());
    const link = inside?.matches("[data-drawer]")
      ? inside
      : isRow && target.closest("tr")?.querySelector("[data-drawer]");
    if (!link) return;
    event.preventDefault();
    open(link);
  });

  document.addEventListener("keydown", (event) => {
    const other = document.querySelector("dialog:modal:not(#drawer)");
    if (other || event.ctrlKey || event.metaKey || event.altKey) return;
    const field = event.target.closest?.("input, textarea, select, [contenteditable]");
    const by = { j: 1, k: -1 }[event.key];
    if (event.key === "Escape" && drawer.open && !field) drawer.close();
    else if (by && !field && document.documentElement.dataset.keys !== "off") step(by);
    else return;
    event.preventDefault();
  });

  document.addEventListener("htmx:after:swap", () => {
    if (!drawer.open) content.replaceChildren();
    content.removeAttribute("aria-busy");
    if (drawer.open) mark();
  });
  content.addEventListener("htmx:after:swap", (event) => {
    if (event.target !== content) return;
    content.scrollTop = 0;
    mark()?.closest("tr").scrollIntoView({ block: "nearest" }); // the list may have become narrower, and so longer
    const title = document.getElementById("drawer-title");
    if (title) document.getElementById("spoken").textContent = title.textContent.trim().replace(/\s+/g, " ");
  });
  content.addEventListener("htmx:error", () => {
    content.replaceChildren(document.getElementById("drawer-unanswered").content.cloneNode(true));
    content.removeAttribute("aria-busy");
  });

  if (inAddress()) show(inAddress());
})();
