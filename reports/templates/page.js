"use strict";
(() => {
  const table = document.getElementById("kernel-table");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows).filter((row) => row.dataset.name !== undefined);

  // Sorting: numbers first ask for the largest, texts for the first letter; the verdict column restores failures first.
  const headings = Array.from(table.querySelectorAll("thead th"));
  const compareText = new Intl.Collator("en", { numeric: true }).compare;
  function sortBy(button) {
    const heading = button.closest("th");
    const key = button.dataset.sort;
    const first = button.dataset.kind === "number" && key !== "status" ? "descending" : "ascending";
    const current = heading.getAttribute("aria-sort");
    const order = current === "none" ? first : current === "ascending" ? "descending" : "ascending";
    const sign = order === "ascending" ? 1 : -1;
    const value = (row) => row.dataset[key];
    const compare = button.dataset.kind === "number" ? (a, b) => Number(value(a)) - Number(value(b)) : (a, b) => compareText(value(a), value(b));
    rows.sort((a, b) => sign * compare(a, b) || Number(a.dataset.status) - Number(b.dataset.status));
    body.append(...rows);
    for (const other of headings) other.setAttribute("aria-sort", other === heading ? order : "none");
  }
  for (const button of table.querySelectorAll("button[data-sort]")) button.addEventListener("click", () => sortBy(button));

  // Filtering: every word must occur somewhere in the row.
  const filters = document.getElementById("filters");
  const find = document.getElementById("filter-text");
  const verdict = document.getElementById("filter-status");
  const operator = document.getElementById("filter-operator");
  const count = document.getElementById("filter-count");
  function filter() {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const content = row.textContent.toLowerCase();
      const fits =
        words.every((word) => content.includes(word)) &&
        (!verdict.value || row.dataset.verdict === verdict.value) &&
        (!operator || !operator.value || row.dataset.operator === operator.value);
      row.hidden = !fits;
      const link = row.querySelector("a");
      if (link) document.getElementById(link.hash.slice(1)).hidden = !fits;
      shown += fits ? 1 : 0;
    }
    count.textContent = shown === rows.length ? `${shown} kernel${shown === 1 ? "" : "s"}` : `${shown} of ${rows.length} kernels`;
  }
  filters.hidden = rows.length < 2;
  filters.addEventListener("input", filter);
  filters.addEventListener("submit", (event) => event.preventDefault());

  // A link to a kernel opens its section.
  function openTarget() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") {
      target.hidden = false;
      target.open = true;
      target.scrollIntoView();
    }
  }
  addEventListener("hashchange", openTarget);
  openTarget();

  const sections = Array.from(document.querySelectorAll("details.kernel"));
  const openAll = document.getElementById("open-all");
  if (openAll) {
    openAll.hidden = false;
    openAll.addEventListener("click", () => {
      const open = openAll.getAttribute("aria-expanded") !== "true";
      for (const section of sections) section.open = open;
      openAll.setAttribute("aria-expanded", String(open));
      openAll.textContent = open ? "Close all" : "Open all";
    });
  }

  // On paper everything is open; afterwards the page is as it was.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = Array.from(document.querySelectorAll("details:not([open])"));
    for (const section of closed) section.open = true;
  });
  addEventListener("afterprint", () => {
    for (const section of closed) section.open = false;
  });

  // A page opened from disk may wait for ever on the clipboard's permission, so the older way comes first.
  async function copy(text) {
    const area = document.createElement("textarea");
    area.value = text;
    area.style.position = "fixed";
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) await navigator.clipboard.writeText(text);
  }
  for (const button of document.querySelectorAll("button.copy")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const answer = await copy(button.parentElement.querySelector("code").textContent).then(() => "Copied", () => "Not copied");
      button.focus();
      button.textContent = answer;
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
})();
