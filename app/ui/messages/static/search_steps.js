// A search through a topic goes on by itself: the rows of each step are appended until the end,
// Stop, or as many rows as the page takes. The server renders every step; "Continue" is its link.
(() => {
  "use strict";
  const results = document.querySelector("#search-results[data-rows-max]");
  if (!results) return;
  const one = (selector, from = results) => from.querySelector(selector);
  const texts = JSON.parse(one("#search-texts").textContent);
  const rowsMax = Number(results.dataset.rowsMax);
  const isFirst = !one("[data-search-first]");
  const permalink = one("[data-search-here]").href;
  const TRIES_MAX = 10;
  let running = null; // the AbortController of the search that runs

  const nextHref = () => one("[data-search-next]")?.href;
  const rowCount = () => results.querySelectorAll("tbody tr").length;
  const isFull = () => rowCount() >= rowsMax;
  const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

  // The buttons and the sentence fit whether the search runs.
  function show(text) {
    const stop = one("[data-search-stop]");
    if (stop) stop.hidden = !running;
    for (const link of results.querySelectorAll("[data-search-next]")) link.hidden = Boolean(running);
    if (text) one("[data-search-state]").textContent = text;
    results.setAttribute("aria-busy", String(Boolean(running)));
  }

  // The answer to a step becomes part of the page: new rows at the end, all else in place of the old.
  function take(step) {
    const rows = one("tbody", step);
    const table = one("tbody");
    if (rows && table) table.append(...rows.children);
    else if (rows) one(".empty")?.replaceWith(rows.closest(".table-box"));
    else if (!table) one(".empty")?.replaceWith(one(".empty", step));
    const pager = one("[data-search-pager]", step);
    if (one("[data-search-pager]")) one("[data-search-pager]").replaceWith(pager ?? "");
    else if (pager) one("#search-texts").before(pager);
    one(".looked").replaceWith(one(".looked", step));
    one("[data-search-here]").href = permalink;
    if (isFirst) one("[data-search-first]")?.remove();
  }

  async function fetchStep(signal) {
    const headers = { "HX-Request": "true", "HX-Request-Type": "partial", "HX-Target": "section#search-results" };
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const answer = await fetch(nextHref(), { headers, signal });
      if (answer.ok) {
        const page = new DOMParser().parseFromString(await answer.text(), "text/html");
        return page.querySelector("#search-results");
      }
      if (answer.status !== 503) return null;
      show(texts.waiting);
      await wait(1000 * Math.min(10, Number(answer.headers.get("Retry-After")) || 1));
    }
    return null;
  }

  async function run() {
    const search = new AbortController();
    running = search;
    show(texts.searching);
    let end = "";
    while (nextHref() && !isFull()) {
      const step = await fetchStep(search.signal).catch(() => null);
      if (running !== search) return;
      if (!step) {
        end = texts.failed;
        break;
      }
      take(step);
      show(nextHref() && texts.searching);
    }
    running = null;
    if (isFull() && nextHref()) end = texts.full.replace("{}", rowCount().toLocaleString("en"));
    show(end);
    document.querySelector("#spoken").textContent = one(".looked p").textContent;
  }

  results.addEventListener("click", (event) => {
    if (event.target.closest("[data-search-stop]")) {
      running.abort();
      running = null;
      show(texts.stopped);
      one("[data-search-next]").focus();
    } else if (event.target.closest("[data-search-next]") && !isFull()) {
      event.preventDefault();
      run();
    }
  });

  if (nextHref() && !isFull()) run();
})();
