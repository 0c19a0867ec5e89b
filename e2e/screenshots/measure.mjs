// What each panel costs: how long Prometheus takes and how many series come
// back.
import { ask, current } from './src/interpolate.js';

// measure asks each panel's queries as a browser does, and keeps the best of
// five times: what the machine does besides is not the panel's cost.
export async function measure(prometheus, board, given, range) {
  const context = { variables: current(board, given), list: board.templating.list, range, pixels: 700 };
  const out = [];
  for (const panel of board.panels.filter((p) => p.targets)) {
    let best = Infinity;
    let series = 0;
    for (let i = 0; i < 5; i++) {
      const began = performance.now();
      const results = await Promise.all(panel.targets.map((t) => ask(prometheus, t, context)));
      best = Math.min(best, (performance.now() - began) / 1000);
      series = results.reduce((sum, r) => sum + r.length, 0);
    }
    out.push({ title: panel.title, seconds: best, series });
  }
  return out;
}
