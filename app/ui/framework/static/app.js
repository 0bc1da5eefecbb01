// What HTML cannot do by itself: relative times, copying, dialogs, keys, quiet polling.
// Every listener is delegated, so that swapped-in fragments need no setting up.
(() => {
  "use strict";
  const root = document.documentElement;
  const skew = Date.now() - Number(root.dataset.nowMs);
  const now = () => Date.now() - skew;
  const one = (selector, from = document) => from.querySelector(selector);
  const each = (selector, act, from = document) => from.querySelectorAll(selector).forEach(act);

  // The zone that was chosen: "2026-11-20 22:24:14 Europe/Berlin", as sv-SE writes it.
  const zone = root.dataset.zone;
  const calendar = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
  const moment = (ms) => `${calendar.format(ms)} ${zone}`;

  // What is said here is written by the server, in the page's language.
  const texts = JSON.parse(one("#texts").textContent);

  // Times: "12 s ago" keeps counting between two refreshes. Same words as formats.py.
  const STEPS = [
    [120, 1, "s"],
    [7200, 60, "min"],
    [172800, 3600, "h"],
    [Infinity, 86400, "d"],
  ];
  function length(ms) {
    if (ms < 1000) return texts.ms.replace("{}", Math.max(ms, 0));
    const seconds = Math.floor(ms / 1000);
    const [, divisor, unit] = STEPS.find(([limit]) => seconds < limit);
    return texts[unit].replace("{}", Math.floor(seconds / divisor));
  }
  function ago(ms) {
    const difference = now() - ms;
    if (Math.abs(difference) < 1000) return texts.now;
    return difference < 0 ? texts.in.replace("{}", length(-difference)) : texts.ago.replace("{}", length(difference));
  }
  function tellTimes() {
    if (document.hidden) return;
    each("time[data-ms]", (time) => {
      const text = ago(Number(time.dataset.ms));
      if (time.textContent !== text) time.textContent = text;
    });
  }
  setInterval(tellTimes, 1000);

  // What works only with script is hidden until there is one.
  function reveal(from = document) {
    each(
      "[data-copy], [data-copy-from], [data-close-dialog], [data-refresh], [data-help], [data-into], " +
        "[data-calendar], [data-ago]",
      (element) => {
        element.hidden = element.matches("[data-close-dialog]") && !element.closest("dialog");
      },
      from,
    );
    each("[data-confirm-name]", checkName, from);
  }

  // Deleting: the button wakes up once the name has been typed. The server checks it again.
  function checkName(form) {
    const typed = one("[name=confirm]", form).value.trim();
    one("[data-confirm-button]", form).disabled = typed !== form.dataset.confirmName;
  }
  document.addEventListener("input", (event) => {
    const form = event.target.closest("[data-confirm-name]");
    if (form) checkName(form);
  });

  // A file that was chosen goes into the field it names, where it can be read before it is sent.
  document.addEventListener("change", async (event) => {
    const { into } = event.target.dataset;
    const file = into && event.target.files[0];
    if (file) one(`#${into}`).value = await file.text();
  });

  function say(text) {
    one("#spoken").textContent = text;
  }

  async function read(address) {
    const response = await fetch(address);
    if (!response.ok) throw new Error(address);
    return new Blob([await response.text()], { type: "text/plain" });
  }

  async function copy(button) {
    const { copy, copyFrom } = button.dataset;
    try {
      // What is at another address is a promise, since a browser lets nobody copy later than the click.
      if (copyFrom) await navigator.clipboard.write([new ClipboardItem({ "text/plain": read(copyFrom) })]);
      else await navigator.clipboard.writeText(copy);
    } catch {
      say(texts.uncopied);
      return;
    }
    button.classList.add("done");
    say(texts.copied);
    setTimeout(() => button.classList.remove("done"), 1200);
  }

  // A field for a time takes what the browser's own calendar gives, or a time of the past.
  const wall = (ms) => calendar.format(ms).replace(" ", "T");
  function fill(field, text) {
    field.value = text;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    field.dispatchEvent(new Event("change", { bubbles: true }));
  }
  function openCalendar(button) {
    const field = one("input", button.parentElement);
    const native = document.createElement("input");
    native.type = "datetime-local";
    native.className = "when-native";
    native.tabIndex = -1;
    native.setAttribute("aria-hidden", "true");
    native.value = (field.value || wall(now())).replace(" ", "T").slice(0, 16);
    native.addEventListener("change", () => fill(field, native.value));
    one(".when-native", button.parentElement)?.remove();
    button.before(native);
    native.showPicker();
  }
  function setAgo(button) {
    const { ago: length_, for: id } = button.dataset;
    const text =
      length_ === "day" ? `${wall(now() - 86_400_000).slice(0, 10)}T00:00:00` : wall(now() - Number(length_));
    fill(one(`#${id}`), text);
  }

  // Dialogs: what htmx puts into #dialog-body opens; Esc and focus return are the browser's.
  const dialog = one("#dialog");
  const body = one("#dialog-body");
  function refresh() {
    each("[data-live]", (element) => htmx.trigger(element, "kite:refresh"));
  }
  document.addEventListener("click", (event) => {
    const target = event.target;
    const button = target.closest("button");
    if (button?.matches("[data-copy], [data-copy-from]")) copy(button);
    else if (button?.matches("[data-refresh]")) refresh();
    else if (button?.matches("[data-help]")) one("#help").showModal();
    else if (button?.matches("[data-calendar]")) openCalendar(button);
    else if (button?.matches("[data-ago]")) setAgo(button);
    else if (button?.matches("[data-close-dialog]")) button.closest("dialog")?.close();
    else if (target.matches("dialog") && target.open) target.close();
  });
  dialog.addEventListener("close", () => body.replaceChildren());
  document.addEventListener("htmx:after:swap", () => {
    reveal();
    tellTimes();
    if (body.childElementCount && !dialog.open) {
      dialog.showModal();
      one("input:not([type=hidden]), select, textarea", body)?.focus();
    }
    const wrong = one("[aria-invalid=true]");
    if (wrong && !wrong.dataset.told) {
      wrong.dataset.told = "yes";
      wrong.focus();
    }
  });

  // Polling: none while hidden or while a row is being read with the mouse button down; one at
  // once when shown again. The age tells when the server last answered.
  const isLive = (event) => event.detail.ctx.sourceElement?.matches?.("[data-live]");
  document.addEventListener("htmx:before:request", (event) => {
    if (!isLive(event)) return;
    if (document.hidden) event.preventDefault();
    // By the timer and by nobody's hand: no reason to keep a login alive.
    const { request, sourceEvent } = event.detail.ctx;
    if (sourceEvent?.type === "every") request.headers["KiteMQ-Poll"] = "1";
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && window.htmx && one("#preference-refresh").value !== "0") refresh();
  });
  function answered(isThere) {
    one("#offline").hidden = isThere;
    one(".pulse")?.classList.toggle("lost", !isThere);
  }
  document.addEventListener("htmx:after:request", (event) => {
    if (!isLive(event)) return;
    const status = event.detail.ctx.response.status;
    answered(status < 500);
    const age = one("#data-age");
    if (status < 400 && age) {
      age.dataset.ms = now();
      age.title = moment(now());
      tellTimes();
    }
  });
  document.addEventListener("htmx:error", (event) => {
    if (isLive(event)) answered(false);
  });

  // What a form asked for was not answered, or only by somebody who knows no login: it says so
  // itself, and keeps what was typed.
  function note(form, id, login) {
    one(".form-note", form)?.remove();
    if (!id) return;
    const added = one(id).content.cloneNode(true);
    if (login) one("a", added).href = login;
    form.prepend(added);
    one(".form-note", form).scrollIntoView({ block: "nearest" });
  }
  const formOf = (event) => {
    const form = event.detail.ctx?.sourceElement?.closest?.("form");
    return form?.method === "post" ? form : null;
  };
  document.addEventListener("htmx:before:request", (event) => {
    const form = formOf(event);
    if (form) note(form);
  });
  document.addEventListener("htmx:error", (event) => {
    const form = formOf(event);
    if (form) note(form, "#note-unanswered");
  });
  document.addEventListener("htmx:response:error", (event) => {
    const form = formOf(event);
    const login = event.detail.ctx.response.headers.get("KiteMQ-Login");
    if (form && login) note(form, "#note-logged-out", login);
  });

  // Preferences take effect when chosen.
  one("#preferences").addEventListener("change", (event) => {
    if (event.target.name === "theme") root.dataset.theme = event.target.value;
    event.currentTarget.requestSubmit();
  });

  // Keys: "/" search, "g" then a letter goes somewhere, "r" refreshes, "?" helps.
  const PLACES = {
    o: "/",
    t: "/topics",
    m: "/messages",
    g: "/groups",
    d: "/dlq",
    a: "/alerts",
    e: "/engine",
    h: "/help",
  };
  let goes = 0;
  document.addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (root.dataset.keys === "off") return;
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || one("dialog:modal")) return;
    const isPlace = goes && performance.now() - goes < 1200;
    goes = 0;
    if (isPlace && PLACES[event.key]) location.assign(PLACES[event.key]);
    else if (event.key === "g") goes = performance.now();
    else if (event.key === "/") one("#search").focus();
    else if (event.key === "?") one("#help").showModal();
    else if (event.key === "r") refresh();
    else return;
    event.preventDefault();
  });

  // Where one is shows in a row of links that is wider than the window.
  each(".tabs [aria-current]", (link) => {
    const row = link.closest(".tabs");
    const place = link.getBoundingClientRect();
    row.scrollLeft += place.left - row.getBoundingClientRect().left - (row.clientWidth - place.width) / 2;
  });

  reveal();
  tellTimes();
})();
