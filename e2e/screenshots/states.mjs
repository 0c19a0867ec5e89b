// What each panel says in the states that matter, drawn with Grafana's own
// transforms, variables and links: see README.md. Each complaint is a line.
// Usage: node states.mjs PROMETHEUS PROMTOOL BOARDS
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { linked, opened } from './grafana.mjs';
import { prometheusWith } from './prometheus.mjs';
import { conversion, culprit, ranges, slow } from './recorded.mjs';
import { createTheme, getFieldDisplayValues } from './src/data.node.js';
import { style, transformed } from './src/frames.js';
import { ask, escaped } from './src/interpolate.js';

const [prometheus, promtool, folder] = process.argv.slice(2);
const board = (name) => JSON.parse(readFileSync(join(folder, `${name}.json`)));
const theme = createTheme();
const complaints = [];
const complain = (text) => complaints.push(text);

// The states by their store: what is chosen, of which board, in which time.
const states = {
  one: [
    { board: 'webhooks', range: 'incident', says: { 'Unhealthy webhooks': /jobs\.scheduler/, Alerts: /^[1-9]/ } },
    { board: 'webhooks', range: 'healthy', says: { 'Unhealthy webhooks': /No unhealthy webhook/, Alerts: /^0 green$/ } },
    { board: 'webhooks', range: 'empty', unknown: true, says: { 'Unhealthy webhooks': /Unknown/, Alerts: /^unknown/ } },
    { board: 'webhooks', range: 'incident', given: { type: 'admit' }, says: { 'Unhealthy webhooks': /jobs\.scheduler/ } },
    { board: 'webhooks', range: 'incident', given: { type: 'conversion|' }, says: { 'Unhealthy webhooks': /backups\.storage.*refused/ } },
    ...[culprit, conversion, slow].map(({ name }) => ({ board: 'webhooks', range: 'incident', given: { name }, says: { 'Unhealthy webhooks': new RegExp(name) } })),
    ...[culprit, conversion, slow].map((given) => ({ board: 'webhook', range: 'incident', given })),
    { board: 'webhook', range: 'empty', given: culprit, unknown: true },
    { board: 'fleet', range: 'empty', unknown: true, says: { 'Worst clusters': /Unknown/, 'Failing webhooks by clusters': /Unknown/ } },
    { board: 'auditor', range: 'incident' },
    { board: 'auditor', range: 'empty', unknown: true },
  ],
  two: [
    { board: 'webhooks', range: 'incident', says: { 'Unhealthy webhooks': /jobs\.scheduler.*north/ } },
    { board: 'webhooks', range: 'incident', given: { type: 'conversion|' }, says: { 'Unhealthy webhooks': /backups\.storage.*north/ } },
  ],
  hundred: [
    {
      board: 'fleet', range: 'incident', says: {
        Clusters: /^100/, 'Clusters in trouble': /^17 #/, 'Without auditor': /^1 /, 'Outdated auditors': /^3 /, 'Worst clusters': /c002 .*c003 /, 'Failing webhooks by clusters': /leases.* 12 \| 100/,
        'Missing auditors': /^c024$/, 'Versions behind': /c019 .*0\.0\.1/, 'Different from most clusters': /w01.*policy \| 2 \| Ignore/,
      },
    },
  ],
  many: [{ board: 'webhooks', range: 'incident', only: /^Unhealthy/, says: { 'Unhealthy webhooks': /copy-/ } }],
  norules: [
    { board: 'webhooks', range: 'incident', says: { Alerts: /^unknown/, 'Unhealthy webhooks': /jobs\.scheduler.*100\.0%/ } },
    { board: 'webhook', range: 'incident', given: culprit, says: { Alerts: /Unknown/ } },
  ],
  noapiserver: [
    { board: 'webhooks', range: 'incident', says: { 'Failing webhooks': /^unknown/, 'Unhealthy webhooks': /jobs\.scheduler.*Service has no ready endpoint/ } },
  ],
};

// without is a query that selects nothing: each selector of the boards names the
// cluster. What it says then comes from no series.
const without = (target) => ({ ...target, expr: target.expr.replaceAll('cluster=~', 'none="none",cluster=~') });

// lacking is a query for which a metric was never exported.
const lacking = (target, metric) => ({ ...target, expr: target.expr.replaceAll(new RegExp(`\\b${metric}\\{`, 'g'), `${metric}{none="none",`) });

// answered are the answers to the panel's queries, of which one may select nothing.
async function answered(url, panel, scene, range, empty) {
  return Promise.all(panel.targets.map((t, i) => ask(url, i === empty ? without(t) : t, { scene, range, pixels: 700 })));
}

// shown is what a field's row shows, after the panel's own styles.
const shown = (field, row) => field.display(field.values[row]);
const isHidden = ({ config }) => Boolean(config.custom?.hidden);
const replace = (scene) => (text, scoped, format) => scene.interpolate(text, scoped, format);

// drawn is what the panel says: cells by their columns, or values by their names.
async function drawn(url, panel, scene, range, empty) {
  const frames = style(await transformed(panel, await answered(url, panel, scene, range, empty)), panel.fieldConfig, theme, replace(scene));
  const nothing = panel.fieldConfig.defaults.noValue;
  switch (panel.type) {
    case 'table': return tableSays(frames, nothing);
    case 'state-timeline':
      return { frames: frames.length, cells: frames.map((f) => f.fields.find((v) => v.type === 'number')).filter(Boolean).map((v) => ({ [v.config.displayNameFromDS]: v.display(v.values.at(-1)).text })), text: frames.some((f) => f.fields.some((v) => v.type === 'time')) ? '' : 'Data does not have a time field' };
    case 'stat': {
      const values = getFieldDisplayValues({ fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, replaceVariables: replace(scene), theme, data: frames, timeZone: 'utc' });
      const { text, color } = values[0].display;
      return { cells: [{ value: text }], text: `${text} ${{ [theme.visualization.getColorByName('green')]: 'green', '#808080': 'grey' }[color] ?? color}` };
    }
    default: return { cells: frames.filter((f) => f.fields.length).map((f) => ({ [f.fields[1].config.displayNameFromDS]: f.length > 0 })), text: '' };
  }
}

function tableSays(frames, nothing) {
  const [frame] = frames;
  const fields = frame?.fields.filter((f) => !isHidden(f)) ?? [];
  const cells = Array.from({ length: frame?.length ?? 0 }, (_, row) => Object.fromEntries(fields.map((f) => [f.config.displayName ?? f.name, { text: shown(f, row).text + (shown(f, row).suffix ?? ''), field: f.name, links: f.config.links?.map(({ url }) => [url, row, f]) }])));
  const text = cells.map((c) => Object.values(c).map((v) => v.text).join(' | ')).join('\n');
  return { frames: frames.length, fields: fields.length, frame, cells: cells.map((c) => Object.fromEntries(Object.entries(c).map(([k, v]) => [k, v.text]))), rich: cells, text: text || nothing };
}

// isOf reports whether the column comes from the query.
const isOf = (title, target, panel) => {
  const names = panel.fieldConfig.overrides.filter((o) => o.properties.some((p) => p.id === 'displayName' && p.value === title)).map((o) => o.matcher.options);
  const lists = panel.transformations?.filter((t) => t.filter?.options === target.refId).flatMap((t) => Object.keys(t.options.fields).map((f) => `${f} (allValues)`)) ?? [];
  return names.some((n) => n === `Value #${target.refId}` || lists.includes(n));
};

// check holds what is true of every panel in every state.
function check(where, panel, drawing) {
  if (panel.type === 'table') {
    if (drawing.frames > 1) complain(`${where}: ${drawing.frames} frames, of which Grafana draws one and a selector`);
    if (drawing.fields && !drawing.cells.length) complain(`${where}: a header without rows`);
  }
  if (panel.type === 'state-timeline' && drawing.text) complain(`${where}: ${drawing.text}`);
  if (/NaN|undefined|Infinity|-[0-9.]+%/.test(drawing.text)) complain(`${where}: ${/.*(NaN|undefined|Infinity|-[0-9.]+%).*/.exec(drawing.text)[0]}`);
}

// unlike are the columns of other queries that an empty one changes, and rows that
// vanish with it.
function unlike(panel, drawing, emptied, target) {
  if (panel.type !== 'table' || target === panel.targets[0]) return [];
  if (drawing.cells.length !== emptied.cells.length) return [`${drawing.cells.length} rows become ${emptied.cells.length}`];
  const key = (row) => `${row.Webhook ?? ''} ${row.Cluster ?? ''}`;
  const rows = new Map(emptied.cells.map((row) => [key(row), row]));
  return drawing.cells.flatMap((row) => Object.entries(row).filter(([title, text]) => !isOf(title, target, panel) && rows.get(key(row))?.[title] !== text)
    .map(([title, text]) => `${title} of ${key(row)}, ${JSON.stringify(text)}, becomes ${JSON.stringify(rows.get(key(row))?.[title])}`)).slice(0, 3);
}

// explained holds that the rows of a large incident have the values that their
// own text speaks of.
function explained(where, { cells }) {
  for (const row of cells) {
    if (/Calls fail/.test(row['What is wrong']) && !row.Since && !where.startsWith('norules')) complain(`${where}: ${row.Webhook} fails, without a time since`);
    if (/Calls fail/.test(row['What is wrong']) && !row.Failed) complain(`${where}: ${row.Webhook} fails, without a share`);
    if (/Slow/.test(row['What is wrong']) && !row.p99) complain(`${where}: ${row.Webhook} is slow, without its p99`);
  }
}

async function look(url, store, state) {
  const given = Object.entries(state.given ?? {}).map(([k, v]) => `${k}=${v}`).join(' ');
  const definition = board(state.board);
  const range = ranges[state.range];
  const scene = opened(definition, range, state.given);
  const panels = definition.panels.flatMap((p) => [p, ...(p.panels ?? [])]).filter((p) => p.targets && p.title.match(state.only ?? ''));
  const missing = new Set(Object.keys(state.says ?? {}));
  for (const panel of panels) {
    const where = `${store} ${state.board} ${state.range} ${given}: ${panel.title}`;
    const drawing = await drawn(url, panel, scene, range);
    check(where, panel, drawing);
    missing.delete(panel.title);
    const says = state.says?.[panel.title];
    if (says && !says.test(drawing.text.replaceAll('\n', ' '))) complain(`${where}: does not say ${says}: ${drawing.text.slice(0, 300)}`);
    if (state.unknown && panel.type === 'stat' && !/^unknown/.test(drawing.text)) complain(`${where}: nothing is measured, and it says ${drawing.text}`);
    if (panel.title === 'Unhealthy webhooks' && store !== 'noapiserver') explained(where, drawing);
    for (const [i, target] of panel.targets.entries()) {
      const emptied = await drawn(url, panel, scene, range, i);
      check(`${where}, ${target.refId} empty`, panel, emptied);
      for (const difference of unlike(panel, drawing, emptied, target)) complain(`${where}, ${target.refId} empty: ${difference}`);
      if (panel.type === 'stat' && !/^unknown/.test(emptied.text)) complain(`${where}, ${target.refId} empty: says ${emptied.text}`);
    }
  }
  for (const title of missing) complain(`${store} ${state.board}: no panel ${title}`);
}

// patient holds that the tables that join several metrics keep their rows,
// whichever of the metrics is missing.
async function patient(url) {
  for (const [name, title, row] of [['webhooks', 'Unhealthy webhooks', culprit.name]]) {
    const definition = board(name);
    const scene = opened(definition, ranges.incident);
    const panel = definition.panels.flatMap((p) => [p, ...(p.panels ?? [])]).find((p) => p.title === title);
    const metrics = new Set(panel.targets.flatMap((t) => [...t.expr.matchAll(/\b(\w+)\{/g)].map(([, metric]) => metric)));
    for (const metric of metrics) {
      const drawing = await drawn(url, { ...panel, targets: panel.targets.map((t) => lacking(t, metric)) }, scene, ranges.incident);
      check(`${title} without ${metric}`, panel, drawing);
      if (!drawing.text.includes(row)) complain(`${title} without ${metric}: ${row} is gone`);
    }
  }
}

// roundTrip follows the links of a board there and back: the choices are as they
// were, and none is empty.
async function roundTrip(url) {
  const whole = board('webhooks');
  const one = board('webhook');
  const range = ranges.incident;
  const back = (given) => linked(opened(one, range, given), one.links.find((l) => l.title === 'All webhooks').url);
  for (const [where, given] of [['opened by itself', {}], ['opened for a webhook', culprit]]) {
    const choices = back(given).given;
    for (const name of ['type', 'name']) if (!choices[name]) complain(`board Webhook ${where}: the way back chooses nothing as ${name}`);
    const panel = whole.panels.find((p) => p.title === 'Unhealthy webhooks');
    const there = opened(whole, range, choices);
    if (!/jobs\.scheduler/.test((await drawn(url, panel, there, range)).text)) complain(`board Webhook ${where}: the way back loses the webhooks`);
  }
  for (const given of [{}, { type: 'conversion|' }, { type: 'admit', name: culprit.name }]) {
    const scene = opened(whole, range, given);
    const panel = whole.panels.find((p) => p.title === 'Unhealthy webhooks');
    const { rich: [row], frame } = await drawn(url, panel, scene, range);
    const [address, rowIndex, field] = row?.Webhook?.links?.[0] ?? [];
    if (!address) { complain(`board Webhooks ${JSON.stringify(given)}: no link in the first row`); continue; }
    const there = linked(scene, address, { __dataContext: { value: { data: [frame], frame, field, rowIndex } } });
    for (const name of ['type', 'name', 'cluster']) if (!there.given[name]) complain(`${JSON.stringify(given)}: the link of a row gives no ${name}`);
    if (there.given.name !== row.Webhook.text) complain(`the link of ${row.Webhook.text} leads to ${there.given.name}`);
    const again = opened(whole, range, back(there.given).given);
    for (const format of ['${type:raw}', '${name:raw}']) {
      if (again.interpolate(format) !== scene.interpolate(format)) complain(`${JSON.stringify(given)}: ${format} is ${again.interpolate(format)} after the way there and back`);
    }
  }
}

async function main() {
  const scratch = mkdtempSync(join(tmpdir(), 'states-'));
  try {
    for (const store of Object.keys(states).filter((s) => !process.env.ONLY || s.match(process.env.ONLY))) {
      const db = await prometheusWith(store, { prometheus, promtool, scratch });
      try {
        for (const state of states[store]) await look(db.url, store, state);
        if (store === 'one') {
          await patient(db.url);
          await roundTrip(db.url);
        }
      } finally {
        await db.stop();
      }
    }
  } finally {
    rmSync(scratch, { recursive: true });
  }
  for (const c of new Set(complaints)) console.log(c);
  process.exit(complaints.length ? 1 : 0);
}

await main();
