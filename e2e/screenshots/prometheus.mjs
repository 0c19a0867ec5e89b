// A Prometheus that holds one of the stores.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { stores, write } from './recorded.mjs';

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

async function fill(promtool, folder, store) {
  mkdirSync(folder);
  const metrics = join(folder, 'samples.om');
  await write(metrics, stores[store]());
  const made = spawnSync(promtool, ['tsdb', 'create-blocks-from', 'openmetrics', metrics, join(folder, 'data')], { encoding: 'utf8' });
  if (made.status !== 0) throw new Error(`filling Prometheus: ${made.error ?? made.stderr}`);
  rmSync(metrics);
}

// prometheusWith starts the binary on a folder that it fills.
export async function prometheusWith(store, { prometheus, promtool, scratch }) {
  const folder = join(scratch, store);
  await fill(promtool, folder, store);
  const port = await freePort();
  const arguments_ = ['--config.file=/dev/null', `--storage.tsdb.path=${join(folder, 'data')}`, '--storage.tsdb.retention.time=100y', `--web.listen-address=127.0.0.1:${port}`];
  const process = spawn(prometheus, arguments_, { stdio: ['ignore', 'ignore', 'pipe'] });
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
