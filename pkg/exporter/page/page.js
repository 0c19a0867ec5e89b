// The pages work without this file: it filters and sorts the table of a file,
// and submits the forms of served pages when a choice changes.
'use strict';

for (const select of document.querySelectorAll('form[method=get] select')) {
  select.addEventListener('change', () => select.form.requestSubmit());
}

const form = document.querySelector('form[data-instant]');
const table = document.querySelector('table[data-table]');

function matches(row, wanted) {
  const has = (list, value) => !value || list.split(' ').includes(value);
  const type = { admit: 'mutating' }[wanted.type] || wanted.type;
  return (!type || row.dataset.type === type) &&
    has(row.dataset.classes, wanted.class) &&
    has(row.dataset.checks, wanted.finding) &&
    has(row.dataset.severities, wanted.severity) &&
    (!wanted.namespace || row.dataset.namespace === wanted.namespace) &&
    (!wanted.q || row.textContent.toLowerCase().includes(wanted.q.toLowerCase()));
}

function filter() {
  const wanted = Object.fromEntries(new FormData(form));
  let shown = 0;
  for (const row of table.tBodies[0].rows) {
    row.hidden = !matches(row, wanted);
    if (!row.hidden) shown++;
  }
  document.querySelector('[data-shown]').textContent = shown;
}

function sort(heading) {
  const descending = heading.getAttribute('aria-sort') === 'ascending';
  const column = heading.cellIndex;
  const value = (row) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
  };
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const x = value(a), y = value(b);
    const order = typeof x === 'number' ? x - y : x.localeCompare(y);
    return descending ? -order : order;
  });
  for (const other of heading.parentNode.cells) other.removeAttribute('aria-sort');
  heading.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
  table.tBodies[0].append(...rows);
}

if (form && table) {
  form.classList.remove('needs-script');
  form.addEventListener('input', filter);
  form.addEventListener('submit', (event) => event.preventDefault());
  for (const heading of table.tHead.rows[0].cells) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = heading.textContent;
    button.addEventListener('click', () => sort(heading));
    heading.replaceChildren(button);
  }
}

addEventListener('beforeprint', () => {
  for (const details of document.querySelectorAll('details.group')) details.open = true;
});
