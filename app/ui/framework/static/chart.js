// What the server cannot draw of a chart: the cursor with the figures of all series, by pointer or
// keys; the range that a drag chooses; and the links that a moment leads to.
(() => {
  "use strict";
  const zone = document.documentElement.dataset.zone;
  const calendar = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
  const MINUTE = 60000;
  const DRAG = 5; // pixels; less is a click
  const BOXES = 12; // in a tip
  const cursors = new WeakMap();

  function make(name, className, text = "") {
    const element = document.createElement(name);
    element.className = className;
    element.textContent = text;
    return element;
  }

  // One cursor by chart; it outlives the refreshes of the page, which skip its element.
  function cursorOf(over) {
    let cursor = cursors.get(over);
    if (!cursor) {
      cursor = {
        over,
        line: make("div", "plot-line"),
        tip: make("div", "plot-tip"),
        brush: make("div", "plot-brush"),
        points: [],
      };
      cursor.line.tabIndex = 0;
      cursor.line.setAttribute("role", "slider");
      cursor.line.setAttribute("aria-label", over.dataset.label);
      over.replaceChildren(cursor.brush, cursor.line, cursor.tip);
      cursors.set(over, cursor);
      hide(cursor);
    }
    const source = document.getElementById(over.dataset.cursor)?.textContent;
    if (source && source !== cursor.source) {
      cursor.source = source;
      cursor.data = JSON.parse(source);
      cursor.last = Math.ceil((cursor.data.to - cursor.data.from) / cursor.data.step) - 1;
      cursor.line.setAttribute("aria-valuemin", 0);
      cursor.line.setAttribute("aria-valuemax", cursor.last);
      if (!cursor.line.hasAttribute("aria-valuenow")) cursor.line.setAttribute("aria-valuenow", cursor.last);
    }
    return cursor;
  }

  const begin = ({ data }, index) => data.from + index * data.step;
  const end = ({ data }, index) => Math.min(data.to, data.from + (index + 1) * data.step);
  const share = ({ data }, at) => (at - data.from) / (data.to - data.from);
  const within = (cursor, index) => Math.min(Math.max(index, 0), cursor.last);
  const indexAt = (cursor, at) => within(cursor, Math.floor((at - cursor.data.from) / cursor.data.step));
  function indexUnder(cursor, x) {
    const place = cursor.over.getBoundingClientRect();
    const { data } = cursor;
    return indexAt(cursor, data.from + ((x - place.left) / place.width) * (data.to - data.from));
  }

  // "2026-11-20 22:24:10 – 22:24:20 UTC"; seconds only where steps are not whole minutes.
  function span(from, to) {
    const size = from % MINUTE || to % MINUTE ? 19 : 16;
    const [first, last] = [from, to].map((at) => calendar.format(at).slice(0, size));
    return `${first} – ${first.slice(0, 10) === last.slice(0, 10) ? last.slice(11) : last} ${zone}`;
  }

  // Addresses have {from}, {to} and {zone} where the moment goes, as Python quotes them or not.
  function address(template, from, to) {
    const wall = (at) => calendar.format(at).replace(" ", "T");
    const values = { from: wall(from), to: wall(to), zone };
    return template.replace(/(?:{|%7B)(from|to|zone)(?:}|%7D)/g, (_, name) => encodeURIComponent(values[name]));
  }

  function hide(cursor) {
    cursor.at = null;
    cursor.anchor = null;
    cursor.isPinned = false;
    for (const part of [cursor.tip, cursor.brush, ...cursor.points]) part.hidden = true;
    cursor.line.classList.remove("shown");
    cursor.tip.classList.remove("pinned");
  }

  // Boxes of heat and bands have their own words: those at a place of the width, one of each row,
  // top down, as pairs of the text and whether the pointer is on its row.
  function boxesAt({ over }, percent, y) {
    const rows = new Map();
    for (const rect of over.parentElement.querySelectorAll(".plot-svg > rect:has(title)")) {
      const [x, width, top, height] = ["x", "width", "y", "height"].map((name) => parseFloat(rect.getAttribute(name)));
      if (x > percent || percent >= x + width) continue;
      rows.set(top, [rect.querySelector("title").textContent, top <= y && y < top + height]);
    }
    return [...rows].sort(([one], [other]) => one - other).map(([, box]) => box);
  }

  // The figures at a step, highest first.
  function figures({ data }, index) {
    return data.looks
      .map((look, n) => ({ look, label: data.labels[n], y: data.places[n][index], text: data.texts[n][index] }))
      .filter(({ y }) => y != null)
      .sort((one, other) => one.y - other.y);
  }

  // So many boxes that the tip still fits, among them the one under the pointer.
  function shortened(boxes) {
    const first = Math.max(0, Math.min(boxes.findIndex(([, isUnder]) => isUnder) - BOXES / 2, boxes.length - BOXES));
    return boxes.slice(first, first + BOXES);
  }

  function fillTip(cursor, index, known, boxes) {
    const { data, over, tip } = cursor;
    const [from, to] = cursor.anchor == null ? [index, index] : [cursor.anchor, index].sort((a, b) => a - b);
    tip.replaceChildren(make("p", "plot-when", span(begin(cursor, from), end(cursor, to))));
    for (const { look, label, text } of known) {
      const row = make("p", "plot-figure");
      row.append(make("span", `key ${look}`), make("span", "", label), make("b", "", text));
      tip.append(row);
    }
    for (const [text, isUnder] of shortened(boxes)) tip.append(make("p", isUnder ? "plot-under" : "", text));
    if (!known.length && !boxes.length) tip.append(make("p", "muted", over.dataset.none));
    if (!cursor.isPinned) {
      if (data.leads.length) tip.append(make("p", "muted", over.dataset.hint));
      return;
    }
    const links = make("p", "plot-leads");
    data.leads.forEach((lead, n) => {
      const link = make("a", "", lead);
      link.href = address(data.hrefs[n], begin(cursor, index), end(cursor, index));
      links.append(link);
    });
    tip.append(links);
  }

  // Beside the pointer and above it, or on the other side where there is no room.
  function placeTip({ over, tip }, x, y) {
    const top = over.getBoundingClientRect().top;
    const isRight = x + tip.offsetWidth + 14 < over.clientWidth;
    const isAbove = top + y - tip.offsetHeight - 10 > 60;
    tip.style.left = `${Math.max(0, isRight ? x + 12 : x - tip.offsetWidth - 12)}px`;
    tip.style.top = `${isAbove ? y - tip.offsetHeight - 10 : y + 14}px`;
  }

  function show(cursor, index, pointer) {
    const { over, line, tip } = cursor;
    const known = figures(cursor, index);
    const centre = share(cursor, (begin(cursor, index) + end(cursor, index)) / 2);
    const place = over.getBoundingClientRect();
    const [x, y] = pointer ? [pointer.x - place.left, pointer.y - place.top] : [centre * place.width, null];
    const boxes = boxesAt(cursor, (100 * x) / place.width, y);
    cursor.at = begin(cursor, index);
    line.style.left = `${100 * centre}%`;
    line.classList.add("shown");
    while (cursor.points.length < known.length) {
      cursor.points.push(make("i", "plot-point"));
      over.append(cursor.points.at(-1));
    }
    cursor.points.forEach((point, n) => {
      point.hidden = n >= known.length;
      if (point.hidden) return;
      point.className = `plot-point ${known[n].look}`;
      point.style.left = line.style.left;
      point.style.top = `${known[n].y}px`;
    });
    cursor.brush.hidden = cursor.anchor == null;
    if (cursor.anchor != null) {
      const [from, to] = [cursor.anchor, index].sort((a, b) => a - b);
      cursor.brush.style.left = `${100 * share(cursor, begin(cursor, from))}%`;
      cursor.brush.style.width = `${100 * share(cursor, cursor.data.from + end(cursor, to) - begin(cursor, from))}%`;
    }
    tip.hidden = false;
    fillTip(cursor, index, known, boxes);
    if (pointer) placeTip(cursor, x, y);
    else if (!cursor.isPinned) placeTip(cursor, x, known[0]?.y ?? over.clientHeight / 2);
    line.setAttribute("aria-valuenow", index);
    const told = [...tip.querySelectorAll("p:not(.plot-leads)")].map((each) => each.textContent);
    line.setAttribute("aria-valuetext", told.join(", "));
  }

  function pin(cursor, index, pointer) {
    const isPinned = !cursor.isPinned && cursor.data.leads.length > 0;
    hide(cursor);
    cursor.isPinned = isPinned;
    cursor.tip.classList.toggle("pinned", isPinned);
    show(cursor, index, pointer);
  }

  // A new address, so that Back undoes the zoom and the range can be shared.
  function zoom(cursor, first, last) {
    const [from, to] = [first, last].sort((a, b) => a - b);
    const card = cursor.over.closest("section[id]");
    const href = address(cursor.data.zoom, begin(cursor, from), end(cursor, to));
    hide(cursor);
    location.assign(card ? `${href}#${card.id}` : href);
  }

  // A pinned tip stays until something else is pressed.
  function leave(target) {
    document.querySelectorAll(".plot-over").forEach((over) => {
      const cursor = cursors.get(over);
      if (cursor?.isPinned && !(target && over.contains(target))) hide(cursor);
    });
  }

  let pressed = null;
  const overOf = (event) => (event.target.closest?.(".plot-tip") ? null : event.target.closest?.(".plot-over"));

  document.addEventListener("pointerdown", (event) => {
    const over = overOf(event);
    leave(event.target);
    if (!over || event.button) return;
    const cursor = cursorOf(over);
    pressed = { cursor, x: event.clientX, index: indexUnder(cursor, event.clientX) };
  });

  document.addEventListener("pointermove", (event) => {
    const over = pressed?.cursor.over ?? overOf(event);
    if (!over) return;
    const cursor = cursorOf(over);
    if (pressed && cursor.data.zoom && Math.abs(event.clientX - pressed.x) > DRAG && cursor.anchor == null) {
      hide(cursor);
      cursor.anchor = pressed.index;
      over.setPointerCapture(event.pointerId);
    }
    if (!cursor.isPinned) show(cursor, indexUnder(cursor, event.clientX), { x: event.clientX, y: event.clientY });
  });

  document.addEventListener("pointerup", (event) => {
    if (!pressed) return;
    const { cursor } = pressed;
    pressed = null;
    const index = indexUnder(cursor, event.clientX);
    if (cursor.anchor != null) zoom(cursor, cursor.anchor, index);
    else if (overOf(event) === cursor.over) pin(cursor, index, { x: event.clientX, y: event.clientY });
  });

  document.addEventListener("pointercancel", () => {
    if (pressed) hide(pressed.cursor);
    pressed = null;
  });

  document.addEventListener("pointerout", (event) => {
    const over = event.target.closest?.(".plot-over");
    if (!over || over.contains(event.relatedTarget) || pressed) return;
    const cursor = cursorOf(over);
    if (!cursor.isPinned && document.activeElement !== cursor.line) hide(cursor);
  });

  const STEPS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
  function press(cursor, key, isShifted) {
    const { line, data } = cursor;
    const index = cursor.at == null ? cursor.last : indexAt(cursor, cursor.at);
    if (STEPS[key]) {
      const anchor = isShifted && data.zoom ? (cursor.anchor ?? index) : null;
      hide(cursor);
      cursor.anchor = anchor;
      show(cursor, within(cursor, index + STEPS[key]));
    } else if (key === "Escape") {
      hide(cursor);
      line.focus();
    } else if (key === "Enter" && cursor.anchor != null) {
      zoom(cursor, cursor.anchor, index);
    } else if (key === "Enter") {
      pin(cursor, index);
      cursor.tip.querySelector("a")?.focus();
    } else return false;
    return true;
  }

  document.addEventListener("keydown", (event) => {
    const toggle = event.target.closest?.(".plot-key");
    if (toggle && event.key === " ") {
      event.preventDefault();
      toggle.click();
    }
    const over = event.target.closest?.(".plot-over");
    if (!over && event.key === "Escape") leave();
    if (!over || (event.target.matches("a") && event.key !== "Escape")) return;
    if (press(cursorOf(over), event.key, event.shiftKey)) event.preventDefault();
  });
  document.addEventListener("focusin", (event) => {
    if (!event.target.matches?.(".plot-line:focus-visible")) return;
    const cursor = cursorOf(event.target.closest(".plot-over"));
    if (cursor.at == null) show(cursor, cursor.last);
  });
  document.addEventListener("focusout", (event) => {
    const over = event.target.closest?.(".plot-over");
    if (over && !over.contains(event.relatedTarget) && event.relatedTarget) hide(cursorOf(over));
  });

  // New figures under a cursor that stands still: the time is the same, its step may be another.
  function renew() {
    document.querySelectorAll(".plot-over").forEach((over) => {
      const cursor = cursorOf(over);
      if (cursor.at == null || cursor.isPinned || pressed) return;
      if (cursor.at < cursor.data.from || cursor.at >= cursor.data.to) hide(cursor);
      else show(cursor, indexAt(cursor, cursor.at));
    });
  }
  document.addEventListener("htmx:after:swap", renew);
  renew();
})();
