// Draws every board from an hour that went wrong, holds what a person must see
// against the page, and writes the pictures.
// Usage: node shoot.mjs PROMETHEUS PROMTOOL FOLDER
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { cpus, loadavg, tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { calm, culprit, culprits, hour, write } from './incident.mjs';
import { measure } from './measure.mjs';
import { serve } from './serve.mjs';
import { ask } from './src/interpolate.js';

const here = import.meta.dirname;
const boards = join(here, '../../dashboards');
const viewport = { width: 1440, height: 900 };
const mostSeries = 100;
const mostSeconds = 1;

const shots = [
  { board: 'webhooks', given: {}, first: true },
  { board: 'webhooks', given: {}, range: calm, suffix: '-calm' },
  { board: 'webhook', given: { type: 'validating', name: culprit } },
  { board: 'webhook', given: { type: 'conversion', name: culprits[4] }, suffix: '-conversion' },
  { board: 'auditor', given: {} },
];

const complaints = [];
const complain = (text) => {
  complaints.push(text);
  console.error(`✗ ${text}`);
};

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

async function fill(promtool, folder) {
  const metrics = join(folder, 'incident.om');
  await write(metrics);
  const made = spawnSync(promtool, ['tsdb', 'create-blocks-from', 'openmetrics', metrics, join(folder, 'data')], { encoding: 'utf8' });
  if (made.status !== 0) throw new Error(`filling Prometheus: ${made.error ?? made.stderr}`);
  rmSync(metrics);
}

async function prometheusOn(binary, folder) {
  const port = await freePort();
  const arguments_ = ['--config.file=/dev/null', `--storage.tsdb.path=${join(folder, 'data')}`, '--storage.tsdb.retention.time=100y', `--web.listen-address=127.0.0.1:${port}`];
  const process = spawn(binary, arguments_, { stdio: ['ignore', 'ignore', 'pipe'] });
  const url = `http://127.0.0.1:${port}`;
  let log = '';
  process.stderr.on('data', (d) => { log = (log + d).slice(-4000); });
  for (const until = Date.now() + 60_000; ;) {
    const reply = await fetch(`${url}/-/ready`).catch(() => undefined);
    if (reply?.ok) break;
    if (process.exitCode !== null || Date.now() > until) throw new Error(`starting Prometheus: ${log}`);
    await new Promise((next) => setTimeout(next, 100));
  }
  return { url, stop: async () => { process.kill(); await once(process, 'exit'); } };
}

async function costs(prometheus, { board, given, first, range = hour, suffix = '' }) {
  const table = await measure(prometheus, JSON.parse(readFileSync(join(boards, `${board}.json`))), given, range);
  const slowest = table.toSorted((a, b) => b.seconds - a.seconds)[0];
  const widest = table.toSorted((a, b) => b.series - a.series)[0];
  console.log(`${board}${suffix}: ${table.length} panels; slowest ${slowest.seconds.toFixed(2)} s (${slowest.title}); most series ${widest.series} (${widest.title})`);
  if (!first) return;
  for (const { title, seconds, series } of table) {
    console.log(`  ${seconds.toFixed(2)} s ${String(series).padStart(4)} series  ${title}`);
    if (series > mostSeries) complain(`${title}: ${series} series`);
    // A clock is no judge on a busy machine: this one a person reads.
    if (seconds > mostSeconds) console.log(`  ! over ${mostSeconds} s, at a load of ${loadavg()[0].toFixed(1)} on ${cpus().length} processors`);
  }
}

// annotated holds that both layers of annotations have something to show.
async function annotated(prometheus) {
  const board = JSON.parse(readFileSync(join(boards, 'webhooks.json')));
  for (const { name, target } of board.annotations.list) {
    const series = await ask(prometheus, target, { variables: { cluster: '.*' }, range: hour, pixels: 700 });
    if (!series.length) complain(`annotations ${name}: nothing to show`);
  }
}

// seen reads the page as a person would.
function seen(page) {
  return page.evaluate(() => {
    const panels = [...document.querySelectorAll('[data-panel]')].map((e) => ({
      title: e.dataset.panel,
      ready: e.dataset.ready === 'true',
      error: e.dataset.error ?? e.querySelector('[data-error]')?.dataset.error,
      text: e.innerText,
    }));
    const places = [...document.querySelectorAll('[data-panel] *')]
      .filter((e) => e.children.length === 0 && e.textContent)
      .map((e) => ({ text: e.textContent, box: e.getBoundingClientRect().toJSON() }));
    return { panels, places, links: [...document.querySelectorAll('a[href*="var-name="]')].map((a) => a.getAttribute('href')) };
  });
}

function judge({ board, suffix = '', first }, { panels, places, links }) {
  const name = board + suffix;
  if (!panels.length) complain(`${name}: no panels`);
  for (const p of panels) {
    if (!p.ready || p.error) complain(`${name}: ${p.title}: ${p.error ?? 'not ready'}`);
    if (/\bNo data\b/.test(p.text)) complain(`${name}: ${p.title}: No data`);
    if (/NaN|undefined|\{\{/.test(p.text)) complain(`${name}: ${p.title}: ${/.*(NaN|undefined|\{\{).*/.exec(p.text)[0]}`);
  }
  if (!first) return;
  const inside = ({ box }) => box.width > 0 && box.top >= 0 && box.left >= 0 && box.bottom <= viewport.height && box.right <= viewport.width;
  if (!places.some((p) => p.text.includes(culprit) && inside(p))) complain(`${name}: ${culprit} is not on the first screen`);
  for (const title of ['p99 latency', 'Failing closed']) {
    const legend = panels.find((p) => p.title === title)?.text ?? '';
    if (!culprits.some((c) => legend.includes(c))) complain(`${name}: ${title}: no culprit in the legend`);
  }
  if (!links.some((l) => l.includes(`var-name=${culprit}`) && l.includes('var-type=validating'))) complain(`${name}: no way from ${culprit} to its board`);
}

async function shoot(browser, url, folder, shot) {
  const page = await browser.newPage({ viewport, deviceScaleFactor: 1 });
  page.on('pageerror', (error) => complain(`${shot.board}: ${error.message}`));
  const { start, end } = shot.range ?? hour;
  const given = Object.entries(shot.given).map(([k, v]) => [`var-${k}`, v]);
  await page.goto(`${url}/?${new URLSearchParams([['board', shot.board], ['from', start], ['to', end], ...given])}`);
  const settled = () => {
    const all = [...document.querySelectorAll('[data-panel]')];
    return all.length > 0 && all.every((e) => e.dataset.ready === 'true' || e.dataset.error);
  };
  await page.waitForFunction(settled, undefined, { timeout: 60_000 });
  await page.evaluate(() => document.fonts.ready);
  await page.waitForTimeout(1000); // charts are drawn a frame or two later
  judge(shot, await seen(page));
  const path = join(folder, `${shot.board}${shot.suffix ?? ''}`);
  await page.screenshot({ path: `${path}.png` });
  // Tables draw only what is on the screen, so the whole board gets one.
  const height = await page.evaluate(() => document.body.scrollHeight);
  await page.setViewportSize({ width: viewport.width, height });
  await page.waitForTimeout(500);
  await page.screenshot({ path: `${path}-whole.png` });
  await page.close();
  console.log(`drew ${path}.png`);
}

async function main([prometheus, promtool, folder]) {
  mkdirSync(folder, { recursive: true });
  const scratch = mkdtempSync(join(tmpdir(), 'screenshots-'));
  const stops = [() => rmSync(scratch, { recursive: true })];
  try {
    await fill(promtool, scratch);
    const db = await prometheusOn(prometheus, scratch);
    stops.unshift(db.stop);
    for (const shot of shots) await costs(db.url, shot);
    await annotated(db.url);
    const site = await serve({ page: join(here, '../bin/screenshots/page'), boards, prometheus: db.url });
    stops.unshift(site.close);
    const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox'] });
    stops.unshift(() => browser.close());
    for (const shot of shots) await shoot(browser, site.url, folder, shot);
  } finally {
    for (const stop of stops) await stop();
  }
  if (complaints.length) throw new Error(`${complaints.length} complaints`);
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
