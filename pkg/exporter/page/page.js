// The pages work without this file: it copies commands, and reads served pages anew
// while they are not in use.
'use strict';

const served = document.querySelector('script[src]');
const loaded = { at: Date.now() };

// prepare adds what needs a script to the elements of a page.
function prepare(root) {
  for (const button of root.querySelectorAll('button.copy[hidden]')) {
    button.hidden = false;
    button.addEventListener('click', async () => {
      const code = button.previousElementSibling;
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = 'Copied';
      } catch { // no permission, or no TLS: select it for the keyboard
        getSelection().selectAllChildren(code);
        button.textContent = 'Selected';
      }
    });
  }
  for (const time of root.querySelectorAll('time')) {
    const local = new Date(time.dateTime);
    if (!isNaN(local)) time.title = (time.title ? time.title + ', ' : '') + local.toLocaleString() + ' here';
  }
}

function duration(seconds) {
  if (seconds < 120) return seconds + 's';
  return seconds < 7200 ? Math.floor(seconds / 60) + 'm' : Math.floor(seconds / 3600) + 'h';
}

function showAge() {
  const age = document.querySelector('[data-age]');
  if (age) age.textContent = duration(Number(age.dataset.age) + Math.floor((Date.now() - loaded.at) / 1000));
}

// used says whether the page is in use: what is typed, chosen or selected
// is not replaced, nor an answer to a form that was sent.
function used() {
  return document.querySelector('main form[method=post]') || document.hidden || document.querySelector('main :focus, header :focus') || String(getSelection());
}

async function refresh() {
  if (used()) return;
  const opened = (root) => [...root.querySelectorAll('details')];
  try {
    const response = await fetch(location.href, { cache: 'no-store' });
    const next = new DOMParser().parseFromString(await response.text(), 'text/html');
    const main = next.querySelector('main');
    if (!main || used()) return;
    const name = (d) => (d.closest('section')?.ariaLabel || '') + (d.closest('details:has(> summary b)')?.querySelector('b').textContent || '') + d.className;
    const before = new Map(opened(document).map((d) => [name(d), d.open]));
    for (const d of opened(main)) d.open = before.get(name(d)) ?? d.open;
    prepare(next);
    document.querySelector('main').replaceChildren(...main.childNodes);
    document.getElementById('age').replaceWith(next.getElementById('age'));
    loaded.at = Date.now();
  } catch {
    const age = document.getElementById('age');
    age.classList.add('stale');
    if (!age.textContent.includes('no answer')) age.append(' · no answer from the auditor');
  }
}

prepare(document);
if (served) {
  setInterval(showAge, 1000);
  setInterval(refresh, 10000);
}

addEventListener('keydown', (event) => {
  const editing = event.target.closest('input, textarea, select');
  if (event.key !== '/' || editing || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.querySelector('header input[type=search], form[role=search] input[type=search]');
  if (search) {
    search.focus();
    event.preventDefault();
  }
});

addEventListener('beforeprint', () => {
  for (const details of document.querySelectorAll('details')) details.open = true;
});
