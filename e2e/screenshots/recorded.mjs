// The recorded hour: what a real API server, the auditor and Prometheus with the
// project's rules exported while webhooks broke. See README.md.
import { createWriteStream, readFileSync } from 'node:fs';
import { once } from 'node:events';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';

const minute = 60;

// The end that every recording has, and when its webhooks begin to break.
const end = Date.UTC(2026, 2, 2, 10, 0, 0) / 1000;
const broken = end - 36 * minute;

export const ranges = {
  incident: { start: end - 60 * minute, end },
  healthy: { start: broken - 28 * minute, end: broken - minute },
  empty: { start: end - 600 * minute, end: end - 540 * minute },
};

// What the pictures must name.
export const culprit = { type: 'admit', name: 'jobs.scheduler.example.com' };
export const conversion = { type: 'conversion', name: 'backups.storage.example.com' };
export const slow = { type: 'validating', name: 'deployments.policy.example.com' };

const lines = (name = 'hour') => gunzipSync(readFileSync(join(import.meta.dirname, `recorded/${name}.om.gz`))).toString().split('\n').filter((l) => l && !l.startsWith('#'));

const parts = /^([\w:]+)\{(.*)\} (\S+) (\d+)$/;

// of puts the series into a cluster, so much later: a healthy cluster is one
// whose incident has not begun by the end.
function of(line, cluster, later = 0) {
  const [, name, labels, value, at] = parts.exec(line);
  const time = Number(at) + later;
  if (time > end) return [];
  const then = /_timestamp_seconds$|^ALERTS_FOR_STATE$/.test(name) ? Number(value) + later : value;
  return [`${name}{cluster="${cluster}"${labels && ','}${labels}} ${then} ${time}`];
}

// many writes each series of a webhook under further names, for what a board
// costs in a cluster with many webhooks.
function many(line, copies) {
  const [, , labels] = parts.exec(line);
  if (!/\b(name|crd_name)="/.test(labels)) return [line];
  return Array.from({ length: copies }, (_, i) => line.replace(/\b(name|crd_name|configuration)="/g, `$1="${i ? `copy-${i}.` : ''}`));
}

// ruled adds the recorded series by which the boards see that the rules are
// loaded: a sample wherever the auditor's was scraped.
function ruled() {
  const all = lines();
  const times = new Set(all.map((l) => parts.exec(l)).filter(([, name]) => name === 'webhook_auditor_build_info').map(([, , , , at]) => at));
  return [...all, ...[...times].sort().map((at) => `cluster_type_configuration_name_namespace:webhook_auditor_webhook:last5m{name=""} 1 ${at}`)];
}

// stores are what the boards are drawn from.
export const stores = {
  one: () => ruled(),
  norules: () => lines().filter((l) => !l.startsWith('ALERTS')),
  noapiserver: () => ruled().filter((l) => !l.startsWith('apiserver_')),
  two: () => ruled().flatMap((l) => [...of(l, 'north'), ...of(l, 'south', end - broken)]),
  hundred: () => lines('fleet'),
  many: () => ruled().flatMap((l) => many(l, 60)),
};

// write writes a store in the OpenMetrics format, which wants the samples of a
// series together.
export async function write(path, samples) {
  const series = new Map();
  for (const line of samples) {
    const key = line.slice(0, line.lastIndexOf('} ') + 1);
    if (!series.has(key)) series.set(key, []);
    series.get(key).push(line);
  }
  const out = createWriteStream(path);
  for (const key of [...series.keys()].sort()) {
    if (!out.write(series.get(key).join('\n') + '\n')) await once(out, 'drain');
  }
  out.end('# EOF\n');
  await once(out, 'finish');
}
