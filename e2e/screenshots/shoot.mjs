// Draws every board from a recorded hour, compares what a user must see with
// the page, and writes the pictures.
// Usage: node shoot.mjs PROMETHEUS PROMTOOL FOLDER
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { conversion, culprit, ranges, slow, stores } from './recorded.mjs';
import { measure } from './measure.mjs';
import { prometheusWith } from './prometheus.mjs';
import { serve } from './serve.mjs';
import { ask, current } from './src/interpolate.js';

const here = import.meta.dirname;
const boards = join(here, '../../dashboards');
const mostSeries = 100;
const mostSeconds = 1;

// A laptop, and half of its screen.
const sizes = [{ width: 1440, height: 900 }, { width: 820, height: 1180 }];
const themes = ['dark', 'light'];

// Each picture is drawn in both themes and sizes.
const shots = [
  { board: 'webhooks', store: 'one', state: 'incident', first: true },
  { board: 'webhooks', store: 'one', state: 'healthy', says: { 'Unhealthy webhooks': 'No unhealthy webhook' } },
  { board: 'webhooks', store: 'one', state: 'empty', says: { 'Unhealthy webhooks': 'Unknown' } },
  { board: 'webhooks', store: 'one', state: 'incident', suffix: '-conversion', given: { type: 'conversion|' }, says: { 'Unhealthy webhooks': conversion.name } },
  { board: 'webhooks', store: 'two', state: 'incident', suffix: '-two' },
  { board: 'webhook', store: 'one', state: 'incident', given: culprit },
  { board: 'webhook', store: 'one', state: 'incident', suffix: '-slow', given: slow },
  { board: 'webhook', store: 'one', state: 'incident', suffix: '-conversion', given: conversion },
  { board: 'webhook', store: 'one', state: 'empty', given: culprit, says: { 'Findings and runbooks': 'Unknown', 'Registration and owner': 'Unknown' } },
  { board: 'fleet', store: 'hundred', state: 'incident', says: { 'Worst clusters': 'c002', 'Missing auditors': 'c024' } },
  { board: 'auditor', store: 'one', state: 'incident' },
  { board: 'auditor', store: 'one', state: 'empty' },
].filter(({ board, state, suffix = '' }) => !process.env.ONLY || `${board}-${state}${suffix}`.match(process.env.ONLY));

const complaints = [];
const complain = (text) => {
  complaints.push(text);
  console.error(`✗ ${text}`);
};

// costs prints what each panel costs where there are many webhooks.
async function costs(prometheus) {
  const board = JSON.parse(readFileSync(join(boards, 'webhooks.json')));
  for (const { title, seconds, series } of await measure(prometheus, board, {}, ranges.incident)) {
    console.log(`  ${seconds.toFixed(2)} s ${String(series).padStart(4)} series  ${title}`);
    if (series > mostSeries) complain(`${title}: ${series} series`);
    // On a busy machine a duration proves nothing: it is printed for readers.
    if (seconds > mostSeconds) console.log(`  ! over ${mostSeconds} s, at a load of ${loadavg()[0].toFixed(1)} on ${cpus().length} processors`);
  }
}

// annotated holds that both layers of annotations have something to show.
async function annotated(prometheus) {
  const board = JSON.parse(readFileSync(join(boards, 'webhooks.json')));
  for (const { name, target } of board.annotations.list) {
    const series = await ask(prometheus, target, { variables: current(board, {}), list: board.templating.list, range: ranges.incident, pixels: 100 });
    if (!series.length) complain(`annotations ${name}: nothing to show`);
  }
}

// seen reads what the page shows.
function seen(page) {
  return page.evaluate(() => {
    const panels = [...document.querySelectorAll('[data-panel]')].map((e) => ({
      title: e.dataset.panel,
      ready: e.dataset.ready === 'true',
      error: e.dataset.error ?? e.querySelector('[data-error]')?.dataset.error,
      text: e.innerText,
      cut: [...e.querySelectorAll('h2, [role=gridcell]')]
        .filter((c) => (c.tagName === 'H2' ? c.scrollWidth > c.clientWidth : c.scrollHeight > c.clientHeight + 1))
        .map((c) => c.textContent),
    }));
    const places = [...document.querySelectorAll('[data-panel] *')]
      .filter((e) => e.children.length === 0 && e.textContent)
      .map((e) => ({ text: e.textContent, box: e.getBoundingClientRect().toJSON() }));
    const { lines, regions } = document.body.dataset;
    return { panels, places, lines: Number(lines), regions: Number(regions), links: [...document.querySelectorAll('a[href*="var-name="]')].map((a) => a.getAttribute('href')) };
  });
}

// complete holds that each panel is drawn, and that its texts are true.
function complete(name, { says = {}, state }, { panels, lines, regions }) {
  if (!panels.length) complain(`${name}: no panels`);
  if (regions) complain(`${name}: ${regions} annotations cover the charts`);
  if (!lines && state === 'incident') complain(`${name}: no annotation marks the incident`);
  for (const p of panels) {
    if (!p.ready || p.error) complain(`${name}: ${p.title}: ${p.error ?? 'not ready'}`);
    for (const text of p.cut) complain(`${name}: ${p.title}: cut: ${text}`);
    if (/\bNo data\b|NaN|undefined|\{\{|-∞/.test(p.text)) complain(`${name}: ${p.title}: ${/.*(No data|NaN|undefined|\{\{|-∞).*/.exec(p.text)[0]}`);
  }
  for (const [title, text] of Object.entries(says)) {
    if (!panels.find((p) => p.title === title)?.text.includes(text)) complain(`${name}: ${title} does not say ${text}`);
  }
}

// first holds that the broken webhook is on the first screen, with a link to its
// board.
function first(name, { panels, places, links }, viewport) {
  const inside = ({ box }) => box.width > 0 && box.top >= 0 && box.left >= 0 && box.bottom <= viewport.height && box.right <= viewport.width;
  if (!places.some((p) => p.text.includes(culprit.name) && inside(p))) complain(`${name}: ${culprit.name} is not on the first screen`);
  const legend = panels.find((p) => p.title === 'p99 latency')?.text ?? '';
  if (!legend.includes(slow.name)) complain(`${name}: the slow webhook is not in the legend`);
  if (!links.some((l) => l.includes(`var-name=${culprit.name}`) && l.includes(`var-type=${culprit.type}`) && l.includes('var-cluster=All'))) complain(`${name}: no way from ${culprit.name} to its board`);
}

async function open(page, url, shot, theme) {
  const { start, end } = ranges[shot.state];
  const given = Object.entries(shot.given ?? {}).map(([k, v]) => [`var-${k}`, v]);
  await page.goto(`${url}/?${new URLSearchParams([['board', shot.board], ['theme', theme], ['from', start], ['to', end], ...given])}`);
  const settled = () => {
    const all = [...document.querySelectorAll('[data-panel]')];
    return all.length > 0 && all.every((e) => e.dataset.ready === 'true' || e.dataset.error);
  };
  await page.waitForFunction(settled, undefined, { timeout: 120_000 });
  await page.evaluate(() => document.fonts.ready);
}

async function shoot(browser, url, folder, shot, theme, viewport) {
  const name = `${shot.board}-${shot.state}${shot.suffix ?? ''}-${theme}-${viewport.width}`;
  const page = await browser.newPage({ viewport, deviceScaleFactor: 1 });
  page.on('pageerror', (error) => complain(`${name}: ${error.message}`));
  await open(page, url, shot, theme);
  await page.waitForTimeout(1000); // charts are drawn a frame or two later
  const found = await seen(page);
  complete(name, shot, found);
  if (shot.first) first(name, found, viewport);
  // Without the room of Grafana's menu, which says nothing.
  const x = viewport.width >= 1200 ? 300 : 0;
  await page.screenshot({ path: join(folder, `${name}.png`), clip: { x, y: 0, width: viewport.width - x, height: viewport.height } });
  // Tables draw only what is on the screen, so the whole board gets one.
  const height = await page.evaluate(() => document.body.scrollHeight);
  await page.setViewportSize({ width: viewport.width, height });
  await page.waitForTimeout(500);
  await page.screenshot({ path: join(folder, `${name}-whole.png`), clip: { x, y: 0, width: viewport.width - x, height } });
  await page.close();
  console.log(`drew ${name}`);
}

// draw draws the boards of one store.
async function draw(browser, { folder, ...programs }, store) {
  const db = await prometheusWith(store, programs);
  const site = await serve({ page: join(here, '../bin/screenshots/page'), boards, prometheus: db.url });
  try {
    if (store === 'one') await annotated(db.url);
    if (store === 'many') await costs(db.url);
    for (const shot of shots.filter((s) => s.store === store)) {
      for (const theme of themes) for (const size of sizes) await shoot(browser, site.url, folder, shot, theme, size);
    }
  } finally {
    site.close();
    await db.stop();
  }
}

async function main([prometheus, promtool, folder]) {
  mkdirSync(folder, { recursive: true });
  const scratch = mkdtempSync(join(tmpdir(), 'screenshots-'));
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
  try {
    const drawn = process.env.ONLY ? [...new Set(shots.map((s) => s.store))] : Object.keys(stores);
    for (const store of drawn) await draw(browser, { prometheus, promtool, folder, scratch }, store);
  } finally {
    await browser.close();
    rmSync(scratch, { recursive: true });
  }
  if (complaints.length) throw new Error(`${complaints.length} complaints`);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
