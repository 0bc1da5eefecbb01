// On a phone the rows of a wide table become cards: each cell says its column's name, so that no
// column has to go. app.css draws them; without script the table scrolls sideways.
(() => {
  "use strict";
  const narrow = matchMedia("(max-width: 760px)");
  const COLUMNS_MIN = 4;
  // What fits a third and a half of a card's width.
  const SHORT_CHARS_MAX = 13;
  const HALF_CHARS_MAX = 22;

  function names(table) {
    const heads = [...(table.tHead?.rows[0]?.cells ?? [])];
    return heads.flatMap((head) => Array(head.colSpan).fill(head.textContent.replace(/[↑↓]/, "").trim()));
  }
  const shown = (element) => {
    let count = element.textContent.replace(/\s+/g, " ").trim().length;
    for (const hidden of element.querySelectorAll(".sr-only")) count -= hidden.textContent.length;
    return count;
  };
  function span(cell, name) {
    if (!cell.textContent.trim() && !cell.querySelector("svg, input")) return "none";
    if (cell.colSpan > 1 || cell.querySelector("form, details, pre, .button")) return "whole";
    const count = Math.max(shown(cell), name.length);
    return count <= SHORT_CHARS_MAX ? "third" : count <= HALF_CHARS_MAX ? "half" : "whole";
  }
  function labelCells(table) {
    const columns = names(table);
    const isWide = columns.length >= COLUMNS_MIN || table.scrollWidth > table.parentElement.clientWidth;
    if (!isWide || table.matches(".hex, .matrix, .diff")) return;
    table.dataset.cards = "";
    for (const row of [...table.tBodies].flatMap((body) => [...body.rows])) {
      let column = 0;
      let isTitle = true;
      for (const cell of row.cells) {
        const name = columns[column] ?? "";
        column += cell.colSpan;
        if (cell.matches(".tick, .star-cell, .tail-pin")) continue;
        // What stands first is the card's title and needs no name.
        cell.dataset.label = isTitle ? "" : name;
        isTitle = false;
        cell.dataset.span = cell.dataset.label ? span(cell, name) : "whole";
      }
    }
  }
  function label(from = document) {
    if (narrow.matches) for (const table of from.querySelectorAll(".table-box > table")) labelCells(table);
  }

  narrow.addEventListener("change", () => label());
  document.addEventListener("htmx:after:swap", () => label());
  // Rows that a page's own script adds, as the live tail does.
  new MutationObserver((changes) => {
    if (!narrow.matches) return;
    const bodies = changes.map((change) => change.target).filter((target) => target.matches("tbody"));
    for (const body of new Set(bodies)) labelCells(body.closest("table"));
  }).observe(document.querySelector("main"), { childList: true, subtree: true });
  label();
})();
