"use strict";
// A click on a heading sorts the table by its column: numbers from the largest, text from the start; then the reverse.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    heading.firstChild.addEventListener("click", () => {
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
// In a notebook the page is in a frame, where a link to a section would load the notebook.
for (const link of document.querySelectorAll("nav a")) {
  link.addEventListener("click", (event) => {
    event.preventDefault();
    document.querySelector(link.getAttribute("href")).scrollIntoView();
  });
}
