// Live tail: one stream of events, a bounded table, pause and count. Bodies are set as text only.
(() => {
  "use strict";
  const tail = document.getElementById("tail");
  if (!tail || !window.EventSource) return;
  const part = (name) => tail.querySelector(`[data-tail-${name}]`);
  const body = document.getElementById("tail-rows");
  const model = document.getElementById("tail-row").content.firstElementChild;
  const pinned = document.getElementById("tail-pinned");
  const PINNED_MAX = 20;
  const cap = Number(tail.dataset.rows);
  const RATE_S = 5;
  const AGAIN_MS = 5000;
  const number = (value) => value.toLocaleString("en");
  const texts = JSON.parse(document.getElementById("tail-texts").textContent);

  let mark = tail.dataset.mark;
  let source = null;
  let again = 0;
  let isPaused = false;
  let isOver = false;
  let held = [];
  let heldCount = 0;
  let received = 0;
  let dropped = 0;
  let arrivals = []; // [when, how many], of the last seconds

  function rowOf(message) {
    const row = model.cloneNode(true);
    const time = row.querySelector("time");
    time.dateTime = message.at;
    time.textContent = message.clock;
    const link = row.querySelector("a");
    link.href = message.href;
    link.dataset.drawer = message.href;
    link.textContent = message.place;
    row
      .querySelector("[data-pin]")
      .setAttribute("aria-label", texts.pin.replace("{}", `${message.topic} ${message.place}`));
    row.querySelectorAll("[data-f]").forEach((cell) => {
      cell.textContent = message[cell.dataset.f];
      if (cell.matches(".badge") && !cell.textContent) cell.remove();
    });
    return row;
  }

  // Newest on top; of more than fit only the newest are made into rows at all.
  function add(messages) {
    const rows = document.createDocumentFragment();
    for (const message of messages.slice(-cap).reverse()) rows.append(rowOf(message));
    body.prepend(rows);
    while (body.rows.length > cap) body.lastElementChild.remove();
  }

  function hold(messages) {
    heldCount += messages.length;
    held = held.concat(messages).slice(-cap);
  }

  function tell() {
    const now = performance.now();
    arrivals = arrivals.filter(([when]) => now - when < RATE_S * 1000);
    const rate = arrivals.reduce((sum, [, count]) => sum + count, 0) / RATE_S;
    part("rate").textContent = `${rate >= 100 ? number(Math.round(rate)) : rate.toFixed(1)} / s`;
    part("received").textContent = number(received);
    part("dropped").textContent = number(dropped);
    part("dropped").classList.toggle("tone-warn", dropped > 0);
    part("pause").textContent = isPaused ? texts.resume.replace("{}", number(heldCount)) : texts.pause;
  }

  function state(text, tone) {
    const place = part("state");
    if (place.textContent !== text) place.textContent = text;
    place.dataset.tone = tone;
  }
  function tellState() {
    if (isOver) state(texts.ended, "bad");
    else if (source?.readyState !== EventSource.OPEN) state(texts.connecting, "warn");
    else if (isPaused) state(texts.paused, "warn");
    else state(texts.following, "ok");
  }

  function taken(event) {
    mark = event.lastEventId || mark;
    const batch = JSON.parse(event.data);
    received += batch.rows.length;
    dropped += batch.skipped + batch.gone;
    arrivals.push([performance.now(), batch.rows.length]);
    if (isPaused) hold(batch.rows);
    else add(batch.rows);
    tell();
    tellAway(batch.unknown);
  }

  function tellAway(reason) {
    const place = part("away");
    place.hidden = !reason;
    if (reason) place.querySelector("span").textContent = texts.away.replace("{}", reason);
  }

  function over(event) {
    const reason = JSON.parse(event.data);
    isOver = true;
    close();
    const place = part("over");
    place.hidden = false;
    place.querySelector("span").textContent = texts.over.replace(
      "{}",
      [reason.detail, reason.remedy].filter(Boolean).join("; "),
    );
    tellState();
  }

  function open() {
    if (source || isOver) return;
    const address = new URL(tail.dataset.stream, location.href);
    address.searchParams.set("from", mark);
    source = new EventSource(address);
    source.addEventListener("open", () => {
      tellState();
      tellAway(""); // the stream says it again
    });
    source.addEventListener("rows", taken);
    source.addEventListener("over", over);
    source.addEventListener("error", () => {
      // The browser connects again by itself, unless it was refused: then we do, from our mark.
      if (source?.readyState === EventSource.CLOSED) {
        close();
        again = setTimeout(open, AGAIN_MS);
      }
      tellState();
    });
  }
  function close() {
    clearTimeout(again);
    source?.close();
    source = null;
  }

  part("pause").addEventListener("click", () => {
    isPaused = !isPaused;
    if (!isPaused) {
      dropped += heldCount - held.length;
      add(held);
      held = [];
      heldCount = 0;
    }
    tell();
    tellState();
  });
  // What is cleared is behind us: the address to keep begins after it.
  part("clear").addEventListener("click", () => {
    body.replaceChildren();
    const address = new URL(tail.dataset.permalink, location.href);
    address.searchParams.set("from", mark);
    part("permalink").href = address;
  });
  // A pinned row stays on top, whatever comes; it is moved, so it does not count among the last.
  function pin(button) {
    const row = button.closest("tr");
    const isPinned = row.parentElement === pinned;
    if (!isPinned && pinned.rows.length >= PINNED_MAX) {
      document.getElementById("spoken").textContent = texts.full;
      button.title = texts.full;
      return;
    }
    button.setAttribute("aria-pressed", String(!isPinned));
    if (isPinned) body.prepend(row);
    else pinned.append(row);
    button.focus();
  }
  tail.addEventListener("click", (event) => {
    const button = event.target.closest("[data-pin]");
    if (button) pin(button);
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => {
    if (event.persisted) open();
  });

  part("pause").hidden = false;
  part("clear").hidden = false;
  body.querySelectorAll("[data-pin]").forEach((button) => {
    button.hidden = false;
  });
  setInterval(tell, 1000);
  tell();
  tellState();
  open();
})();
