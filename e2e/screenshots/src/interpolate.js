// What Grafana does to an expression before Prometheus sees it. Browser and
// measurement share it.

const seconds = (duration) => {
  const [, n, unit] = /^(\d+)([smhd])$/.exec(duration);
  return n * { s: 1, m: 60, h: 3600, d: 86400 }[unit];
};

// The scrape interval that Grafana assumes where the data source says nothing.
const scrapeInterval = 15;

// step is how far apart the points of a chart are: the range over its pixels,
// but no less than the query's own interval.
function step(range, target, pixels) {
  return Math.max(Math.ceil((range.end - range.start) / pixels), seconds(target.interval ?? '15s'));
}

function rateInterval(range, target, pixels) {
  const minimum = target.interval ? seconds(target.interval) : scrapeInterval;
  return Math.max(step(range, target, pixels) + minimum, 4 * minimum);
}

// current returns the values of a board's variables: those given, else their
// defaults. A choice "All" stands for its regular expression.
export function current(board, given) {
  const out = {};
  for (const v of board.templating.list) {
    const value = given[v.name] ?? v.current?.value ?? '';
    out[v.name] = value === '$__all' ? v.allValue : fixed(v, value);
  }
  return out;
}

// fixed returns the value of a custom variable's choice.
function fixed(variable, value) {
  if (variable.type !== 'custom') return value;
  const pair = variable.query.split(',').map((c) => c.split(' : ')).find(([text, v]) => text === value || v === value);
  return pair ? pair[1] : value;
}

// ask sends a query to Prometheus at base, as a panel of so many pixels would,
// and returns the series.
export async function ask(base, target, { variables, range, pixels }) {
  const all = {
    ...variables,
    __rate_interval: `${rateInterval(range, target, pixels)}s`,
    __range: `${range.end - range.start}s`,
    __from: `${range.start * 1000}`,
  };
  const query = target.expr.replace(/\$(\w+)/g, (whole, name) => all[name] ?? whole);
  const when = target.instant ? { time: range.end } : { ...range, step: step(range, target, pixels) };
  const path = target.instant ? 'query' : 'query_range';
  const reply = await fetch(`${base}/api/v1/${path}`, { method: 'POST', body: new URLSearchParams({ query, ...when }) });
  const body = await reply.json();
  if (body.status !== 'success') throw new Error(`${body.error} in\n${query}`);
  return body.data.resultType === 'scalar' ? [{ metric: {}, value: body.data.result }] : body.data.result;
}
