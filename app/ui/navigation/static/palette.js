// The palette (Ctrl or Cmd and K) and the header's search: a few letters, Enter. The server finds;
// here are the keys, and what this browser visited lately.
(() => {
  "use strict";
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  document.querySelectorAll("[data-local-zone]").forEach((field) => {
    field.value = zone;
  });

  const dialog = document.querySelector("#palette");
  if (!dialog) return;
  const WAIT_MS = 100;
  const RECENT_MAX = 12;
  const RECENT_FIRST = 5; // shown before a letter is typed
  const RECENT_KEY = `kitemq-recent-${dialog.dataset.user}`;
  const OF_ONE_THING = /^\/(topics|groups|dlq|clients|messages|trace|jobs|scheduled|transactions|reports)\/[^/]/;

  // -- what was visited lately ------------------------------------------------------------------

  function recent() {
    try {
      const visits = JSON.parse(localStorage.getItem(RECENT_KEY) ?? "[]");
      return visits.filter(({ title, path }) => typeof title === "string" && /^\/(?!\/)/.test(path));
    } catch {
      return []; // storage is off, or what is there is no list
    }
  }
  function remember() {
    const status = performance.getEntriesByType("navigation")[0]?.responseStatus ?? 200;
    if (status >= 400 || document.querySelector(".failure") || !OF_ONE_THING.test(location.pathname)) return;
    const path = location.pathname;
    const visits = [
      { title: document.title.split(" · ")[0], path },
      ...recent().filter((visit) => visit.path !== path),
    ];
    try {
      localStorage.setItem(RECENT_KEY, JSON.stringify(visits.slice(0, RECENT_MAX)));
    } catch {
      // No room, or not allowed: nothing is remembered.
    }
  }
  remember();

  function recentItem({ title, path }) {
    const item = document.createElement("li");
    item.setAttribute("role", "presentation");
    const link = document.createElement("a");
    link.href = path;
    link.setAttribute("role", "option");
    const name = document.createElement("span");
    name.className = "palette-title";
    name.textContent = title;
    const kind = document.createElement("span");
    kind.className = "muted";
    kind.textContent = `${dialog.dataset.recent} · ${path}`;
    const icon = document.querySelector("#palette-form .icon").cloneNode(true);
    const use = icon.querySelector("use");
    use.setAttribute("href", use.getAttribute("href").replace(/#.*/, "#clock"));
    link.append(icon, name, kind);
    item.append(link);
    return item;
  }

  // Without letters what was visited lately stands first; with letters the hits that were.
  function putRecentFirst(list, text) {
    const visits = recent().filter((visit) => visit.path !== location.pathname);
    if (!text) {
      list.prepend(...visits.slice(0, RECENT_FIRST).map(recentItem));
      return;
    }
    const paths = visits.map((visit) => visit.path);
    const items = [...list.children];
    const place = (item) => {
      const link = item.querySelector("a");
      const at = paths.indexOf(new URL(link.href).pathname);
      return "exact" in link.dataset ? -1 : at < 0 ? paths.length : at;
    };
    list.append(...items.sort((one, other) => place(one) - place(other)));
  }

  // -- a box with a list of hits ----------------------------------------------------------------

  // `choosesFirst`: Enter goes to the first hit; otherwise it sends the form unless one is chosen.
  function combobox(box, list, { choosesFirst, close }) {
    let timer = 0;
    let search = null;
    let isGoing = false; // Enter was pressed before the answer to the last letter was there
    const hits = () => [...list.querySelectorAll("[role=option]")];
    const chosen = () => hits().find((one) => one.getAttribute("aria-selected") === "true");

    function choose(link) {
      for (const one of hits()) one.setAttribute("aria-selected", String(one === link));
      if (link) {
        box.setAttribute("aria-activedescendant", link.id);
        link.scrollIntoView({ block: "nearest" });
      } else box.removeAttribute("aria-activedescendant");
    }
    function go(link) {
      if (!link) return;
      close();
      const [name, value] = (link.dataset.preference ?? "").split("=");
      const preference = name && document.querySelector(`#preference-${name}`);
      if (preference) {
        preference.value = value;
        preference.dispatchEvent(new Event("change", { bubbles: true }));
      } else location.assign(link.href);
    }
    async function ask() {
      search?.abort();
      search = new AbortController();
      const text = box.value.trim();
      const headers = { "HX-Request": "true", "HX-Request-Type": "partial", "HX-Target": "div#palette-hits" };
      const { signal } = search;
      let answer;
      try {
        answer = await fetch(`/palette?q=${encodeURIComponent(text)}`, { headers, signal });
        if (!answer.ok) return;
        answer = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#palette-hits");
      } catch {
        return; // a later letter's answer comes, or the server is away
      }
      if (!answer || signal.aborted) return;
      const options = answer.querySelector(".palette-list");
      if (options) putRecentFirst(options, text);
      list.replaceChildren(...answer.childNodes);
      hits().forEach((link, at) => {
        link.id = `${list.id}-${at}`;
      });
      list.dataset.text = text;
      list.hidden = false;
      box.setAttribute("aria-expanded", "true");
      choose(choosesFirst ? hits()[0] : null);
      if (isGoing) go(chosen());
    }

    box.addEventListener("input", () => {
      isGoing = false;
      clearTimeout(timer);
      timer = setTimeout(ask, WAIT_MS);
    });
    box.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) {
        const all = hits();
        if (!all.length) ask();
        const at = all.indexOf(chosen());
        choose(all[at < 0 ? (step > 0 ? 0 : all.length - 1) : (at + step + all.length) % all.length]);
      } else if (event.key === "Enter" && (choosesFirst || chosen())) {
        if (list.dataset.text === box.value.trim()) go(chosen());
        else isGoing = true;
      } else return;
      event.preventDefault();
    });
    list.addEventListener("mousedown", (event) => event.preventDefault()); // the box keeps the focus
    list.addEventListener("click", (event) => {
      const link = event.target.closest("[data-preference]");
      if (!link || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      go(link);
    });
    return {
      ask,
      clear() {
        search?.abort();
        clearTimeout(timer);
        isGoing = false;
        list.replaceChildren();
        delete list.dataset.text;
        box.removeAttribute("aria-activedescendant");
      },
    };
  }

  // -- the palette ------------------------------------------------------------------------------

  const paletteBox = document.querySelector("#palette-box");
  const palette = combobox(paletteBox, document.querySelector("#palette-hits"), {
    choosesFirst: true,
    close: () => dialog.close(),
  });
  function open() {
    if (dialog.open || document.querySelector("dialog[open]")) return;
    dialog.showModal();
    paletteBox.select();
    palette.ask();
  }
  dialog.addEventListener("close", palette.clear);
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open();
    }
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-palette]")) open();
  });
  document.querySelectorAll("[data-palette]").forEach((button) => {
    button.hidden = false;
  });

  // -- the header's search ----------------------------------------------------------------------

  const box = document.querySelector("#search");
  const list = document.querySelector("#search-hits");
  function close() {
    header.clear();
    list.hidden = true;
    box.setAttribute("aria-expanded", "false");
  }
  const header = combobox(box, list, { choosesFirst: false, close });
  const attributes = {
    role: "combobox",
    "aria-expanded": "false",
    "aria-controls": list.id,
    "aria-autocomplete": "list",
  };
  for (const [name, value] of Object.entries(attributes)) box.setAttribute(name, value);
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      close();
    }
  });
  box.form.addEventListener("focusout", (event) => {
    if (!box.form.contains(event.relatedTarget)) close();
  });
})();
