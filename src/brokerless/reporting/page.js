"use strict";
// Without this script, the page is a plain document: headings and inputs that need it are made here.
const tables = [...document.querySelectorAll("table")].map((table) => ({ table, body: table.tBodies[0], own: "", note: null }));
const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
const plain = (number) => number.toLocaleString("en");

// A click on a heading sorts the table by its column: numbers from the largest, text from the start; then the reverse.
for (const { table, body } of tables) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const isNumber = heading.classList.contains("number");
      const first = isNumber ? "descending" : "ascending";
      const order = heading.getAttribute("aria-sort") !== first ? first : isNumber ? "ascending" : "descending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", order);
      const value = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
      const rows = [...body.rows].map((row) => [isNumber ? parseFloat(value(row)) : value(row), row]);
      // Cells without a number stay at the end.
      const compare = isNumber
        ? ([a], [b]) => (isNaN(a) || isNaN(b) ? isNaN(a) - isNaN(b) : order === "ascending" ? a - b : b - a)
        : ([a], [b]) => (order === "ascending" ? 1 : -1) * a.localeCompare(b, undefined, { numeric: true });
      rows.sort(compare);
      body.append(...rows.map(([, row]) => row));
    });
  });
}

// A row shows if it has all words of the search in all tables, and of its table's own filter. The name of its topic
// counts as a part of each row of the topic's details.
let searched = "";
const apply = (one) => {
  const wanted = [...words(searched), ...words(one.own)];
  const of = one.table.closest("details")?.querySelector("summary b").textContent ?? "";
  let found = 0;
  for (const row of one.body.rows) {
    const text = wanted.length ? `${of} ${[...row.cells].map((cell) => cell.textContent).join(" ")}`.toLowerCase() : "";
    row.hidden = !wanted.every((word) => text.includes(word));
    found += !row.hidden;
  }
  if (one.note) one.note.textContent = wanted.length ? `${plain(found)} of ${plain(one.body.rows.length)} rows` : "";
  return found;
};
const input = (label, use) => {
  const box = document.createElement("input");
  box.type = "search";
  box.placeholder = label;
  box.setAttribute("aria-label", label);
  box.addEventListener("input", () => use(box.value));
  return box;
};
for (const one of tables) {
  if (one.body.rows.length < 2) continue;
  const bar = document.createElement("div");
  bar.className = "filter";
  one.note = document.createElement("span");
  one.note.setAttribute("aria-live", "polite");
  const box = input("Filter this table", (text) => { one.own = text; apply(one); });
  box.setAttribute("aria-label", `Filter ${one.table.getAttribute("aria-label")}`);
  bar.append(one.note, box);
  one.table.closest(".table").querySelector(".bar").append(bar);
}
const search = document.createElement("div");
search.className = "search";
const total = document.createElement("span");
total.className = "muted";
total.setAttribute("aria-live", "polite");
const opened = new Set();
search.append(input("Search all tables", (text) => {
  searched = text;
  const isOn = words(text).length > 0;
  let found = 0;
  for (const one of tables) {
    const here = apply(one);
    found += here;
    one.table.closest(".table").hidden = isOn && !here;
  }
  // Details with matches open, and close again after the search.
  for (const part of document.querySelectorAll("details")) {
    const matches = isOn && part.querySelector(".table:not([hidden])") !== null;
    part.hidden = isOn && !matches;
    if (matches && !part.open) {
      part.open = true;
      opened.add(part);
    } else if (!matches && opened.delete(part)) {
      part.open = false;
    }
  }
  total.textContent = isOn ? `${plain(found)} ${found === 1 ? "row" : "rows"}` : "";
}), total);
document.querySelector("nav").append(search);

// In a notebook the page is in a frame, where a link to a section would load the notebook.
for (const link of document.querySelectorAll('a[href^="#"]')) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const target = document.getElementById(link.getAttribute("href").slice(1));
    if (target.tagName === "DETAILS") target.open = true;
    target.scrollIntoView();
  });
}
// The link of the section on the screen is marked.
const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.getAttribute("href").slice(1), link]));
const visible = new Set();
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) visible[isIntersecting ? "add" : "delete"](target.id);
  const current = [...links.keys()].find((id) => visible.has(id));
  for (const [id, link] of links) {
    if (id === current) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}, { rootMargin: "-70px 0px -50% 0px" });
for (const section of document.querySelectorAll("section")) watcher.observe(section);

// Paper shows all details.
let closed = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const part of closed) part.open = true;
});
addEventListener("afterprint", () => {
  for (const part of closed) part.open = false;
});
