// Long tables get a field to filter by, and headings that sort. Without this script they are tables like any other.

const LONG = 15;

function textOf(row, column) {
  return row.cells[column] ? row.cells[column].textContent.trim() : "";
}

function compared(a, b) {
  return a.localeCompare(b, "en", { numeric: true, sensitivity: "base" });
}

function makeSortable(table, body, rows) {
  const headings = Array.from(table.tHead.rows[0].cells);
  headings.forEach((heading, column) => {
    if (!heading.textContent.trim()) return;
    const button = document.createElement("button");
    button.className = "sort";
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const up = heading.getAttribute("aria-sort") !== "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      // What is empty comes last, whichever way the rest is sorted.
      const sorted = [...rows].sort((a, b) => {
        const [x, y] = [textOf(a, column), textOf(b, column)];
        if (!x || !y) return Number(!x) - Number(!y);
        return up ? compared(x, y) : compared(y, x);
      });
      body.append(...sorted);
    });
  });
}

function makeFilterable(table, rows) {
  const field = document.createElement("input");
  field.className = "filter";
  field.type = "search";
  field.placeholder = `Filter ${rows.length} rows`;
  field.setAttribute("aria-label", "Filter the rows of the table below");
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows.forEach((row) => {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    });
  });
  table.before(field);
}

function nameCells(table, rows) {
  const titles = Array.from(table.tHead.rows[0].cells, (heading) => heading.textContent.trim());
  rows.forEach((row) => {
    Array.from(row.cells).forEach((cell, column) => {
      if (column > 0 && titles[column]) cell.dataset.title = titles[column];
    });
  });
}

// Only a table that is too wide gets a frame that scrolls: headings stay in sight in none that has one.
function frameWide(tables) {
  tables.forEach((table) => {
    const frame = table.parentElement;
    frame.classList.remove("wide");
    frame.classList.toggle("wide", table.offsetWidth > frame.clientWidth);
  });
}

const tables = document.querySelectorAll(".md-content table:not([class])");
tables.forEach((table) => {
  const body = table.tBodies[0];
  if (!table.tHead || !body) return;
  const rows = Array.from(body.rows);
  nameCells(table, rows);
  if (rows.length < LONG) return;
  makeFilterable(table, rows);
  makeSortable(table, body, rows);
});
window.addEventListener("load", () => frameWide(tables));
window.addEventListener("resize", () => frameWide(tables));
