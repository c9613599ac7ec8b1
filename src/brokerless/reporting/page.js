"use strict";
// Without this script, the page is a plain document: headings and inputs that need it are made here.
const tables = [...document.querySelectorAll("table")].map((table) => ({ table, body: table.tBodies[0], own: "", note: null, isWhole: false }));
const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
// A longer table shows its first rows, and the others after a click: it needs no scroll area inside the page.
const FEW = 12;
const plain = (number) => number.toLocaleString("en");

// A click on a heading sorts the table by its column: numbers from the largest, text from the start; then the reverse.
for (const one of tables) {
  const { table, body } = one;
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
      apply(one);
    });
  });
}

// A row shows if it has all words of the search in all tables, and of its table's own filter. The name of its topic
// counts as a part of each row of the topic's details.
let searched = "";
const apply = (one) => {
  const wanted = [...words(searched), ...words(one.own)];
  const of = one.table.closest("details:not(.folds)")?.querySelector("summary b").textContent ?? "";
  let found = 0;
  for (const row of one.body.rows) {
    const text = wanted.length ? `${of} ${[...row.cells].map((cell) => cell.textContent).join(" ")}`.toLowerCase() : "";
    const matches = wanted.every((word) => text.includes(word));
    found += matches;
    row.hidden = !matches || (found > FEW && !one.isWhole);
  }
  if (one.more) {
    one.more.hidden = found <= FEW;
    one.more.textContent = one.isWhole ? `Show the first ${FEW} rows` : `Show all ${plain(found)} rows`;
  }
  if (one.none) one.none.hidden = found > 0;
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
  if (one.body.rows.length < 6) continue;
  const scroll = one.table.closest(".scroll");
  one.none = document.createElement("p");
  one.none.className = "none";
  one.none.textContent = "No row matches the filter.";
  scroll.after(one.none);
  if (one.body.rows.length > FEW) {
    one.more = document.createElement("button");
    one.more.type = "button";
    one.more.className = "more";
    one.more.addEventListener("click", () => {
      one.isWhole = !one.isWhole;
      apply(one);
      if (!one.isWhole) one.table.closest(".table").scrollIntoView({ block: "nearest" });
    });
    scroll.after(one.more);
  }
  const bar = document.createElement("div");
  bar.className = "filter";
  one.note = document.createElement("span");
  one.note.setAttribute("aria-live", "polite");
  const box = input("Filter this table", (text) => { one.own = text; apply(one); });
  box.setAttribute("aria-label", `Filter ${one.table.getAttribute("aria-label")}`);
  bar.append(one.note, box);
  one.table.closest(".table").querySelector(".bar").append(bar);
  apply(one);
}
// A phone shows each row of some tables as a card, whose cells have the names of their columns.
const phone = matchMedia("(max-width: 40rem)");
// There, a long table shows after a click. A wider screen has no summary to click.
const fold = () => {
  for (const part of document.querySelectorAll(".folds")) part.open = !phone.matches;
};
phone.addEventListener("change", fold);
fold();
const label = () => {
  if (!phone.matches) return;
  for (const table of document.querySelectorAll("table.phone:not(.labelled)")) {
    const names = [...table.tHead.rows[0].cells].map((heading) => heading.textContent);
    for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, at) => { cell.dataset.label = names[at]; });
    table.classList.add("labelled");
  }
};
phone.addEventListener("change", label);
label();
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const fits = target.firstElementChild.scrollWidth <= target.clientWidth;
    target.classList.toggle("fits", fits);
    target.classList.toggle("wide", !fits);
  }
});
for (const { table } of tables) sizes.observe(table.parentElement);
// The menu takes two lines on a narrow screen. The headings of a table stay directly below it.
const menu = document.querySelector("nav");
new ResizeObserver(() => document.documentElement.style.setProperty("--menu", `${Math.floor(menu.getBoundingClientRect().height)}px`)).observe(menu);
const search = document.createElement("div");
search.className = "search";
const total = document.createElement("span");
total.className = "muted";
total.setAttribute("aria-live", "polite");
const opened = new Set();
const nothing = document.createElement("section");
nothing.setAttribute("role", "status");
nothing.hidden = true;
document.querySelector("main").prepend(nothing);
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
  // A section without a match would be an empty card.
  for (const section of document.querySelectorAll("section[id]")) {
    section.hidden = isOn && section.querySelector(".table:not([hidden])") === null;
    const link = document.querySelector(`nav a[href="#${section.id}"]`);
    if (link) link.hidden = section.hidden;
  }
  for (const part of document.querySelectorAll(".tiles, .charts, aside")) part.hidden = isOn;
  nothing.hidden = !isOn || found > 0;
  nothing.textContent = nothing.hidden ? "" : `No row matches “${text.trim()}”.`;
  // The matches begin below the navigation.
  const top = document.querySelector("header").getBoundingClientRect().bottom + scrollY;
  if (isOn && scrollY > top) scrollTo(0, top);
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

// Paper shows all details and rows.
let closed = [], paged = [];
addEventListener("beforeprint", () => {
  closed = [...document.querySelectorAll("details:not([open])")];
  for (const part of closed) part.open = true;
  paged = tables.filter((one) => one.more && !one.isWhole);
  for (const one of paged) {
    one.isWhole = true;
    apply(one);
  }
});
addEventListener("afterprint", () => {
  for (const part of closed) part.open = false;
  for (const one of paged) {
    one.isWhole = false;
    apply(one);
  }
});
