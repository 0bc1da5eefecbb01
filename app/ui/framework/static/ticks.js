// Ticking rows of a list: all of a page, a range by Shift, and how many are ticked.
(() => {
  "use strict";
  const boxes = (form) => [...form.querySelectorAll("[data-tick]")];
  let last = null;

  function tell() {
    document.querySelectorAll("[data-ticked]").forEach((form) => {
      const all = boxes(form);
      const ticked = all.filter((box) => box.checked).length;
      const header = form.querySelector("[data-tick-all]");
      header.hidden = false;
      header.checked = ticked > 0 && ticked === all.length;
      header.indeterminate = ticked > 0 && ticked < all.length;
      // Who may not resend finds the buttons disabled, whatever is ticked.
      form.querySelectorAll("[data-needs-tick]").forEach((button) => {
        button.disabled = ticked === 0;
      });
      form.querySelectorAll("[data-tick-count]").forEach((place) => {
        const text = place.dataset.tickCount === "plain" ? `${ticked}` : ` (${ticked})`;
        place.textContent = ticked ? text : "";
      });
    });
  }

  document.addEventListener("click", (event) => {
    const box = event.target;
    if (!box.matches?.("[data-tick]")) return;
    const all = boxes(box.form);
    if (event.shiftKey && last?.isConnected && last !== box) {
      const [from, to] = [all.indexOf(last), all.indexOf(box)].sort((a, b) => a - b);
      all.slice(from, to + 1).forEach((each) => {
        each.checked = box.checked;
      });
    }
    last = box;
    tell();
  });
  document.addEventListener("change", (event) => {
    const header = event.target;
    if (!header.matches?.("[data-tick-all]")) return;
    boxes(header.form).forEach((box) => {
      box.checked = header.checked;
    });
    tell();
  });
  document.addEventListener("htmx:after:swap", tell);
  addEventListener("pageshow", tell);
  tell();
})();
