// What Grafana does to an expression before Prometheus sees it. Browser and
// measurement share it.

const seconds = (duration) => {
  const [, n, unit] = /^(\d+)([smhd])$/.exec(duration);
  return n * { s: 1, m: 60, h: 3600, d: 86400 }[unit];
};

// The scrape interval that Grafana assumes where the data source sets none.
const scrapeInterval = 15;

// step is how far apart the points of a chart are: the range over its pixels,
// but no less than the query's own interval.
export function step(range, target, pixels) {
  return Math.max(Math.ceil((range.end - range.start) / pixels), seconds(target.interval ?? '15s'));
}

function rateInterval(range, target, pixels) {
  const minimum = target.interval ? seconds(target.interval) : scrapeInterval;
  return Math.max(step(range, target, pixels) + minimum, 4 * minimum);
}

// current returns the values of a board's variables: those given, else their
// defaults. A choice "All" stands for its regular expression.
export function current(board, given) {
  return Object.fromEntries(board.templating.list.map((v) => [v.name, given[v.name] ?? v.current?.value ?? '']));
}

// regular and special escape as Grafana's Prometheus data source does: the
// first where a variable has one value, the second where it may have many.
const regular = (value) => value.replace(/\\/g, '\\\\').replace(/'/g, "\\'");
const special = (value) => value.replace(/\\/g, '\\\\\\\\').replace(/[$^*{}[\]'+?.()|]/g, '\\\\$&');

// formatted is a variable's value as an expression gets it. Only the format
// "raw", and the regular expression that stands for All, stay as they are.
export function formatted(variable, value, format) {
  if (value === '$__all' || value === 'All') return variable.allValue ?? '.*';
  return format === 'raw' ? value : escaped(value, variable);
}

export const escaped = (value, { multi, includeAll }) => (multi || includeAll ? special(value) : regular(value));

// interpolate replaces $name, ${name} and ${name:format}.
export function interpolate(text, variables, list) {
  return text.replace(/\$(?:(\w+)|\{(\w+)(?::(\w+))?\})/g, (whole, plain, braced, format) => {
    const name = plain ?? braced;
    if (!(name in variables)) return whole;
    const variable = list.find((v) => v.name === name);
    return variable ? formatted(variable, variables[name], format) : variables[name];
  });
}

// ask sends a query to Prometheus at base, as a panel of so many pixels would,
// and returns the series. Where there is a scene, Grafana's own code fills in the
// variables.
export async function ask(base, target, { variables, list, scene, range, pixels }) {
  const times = {
    __rate_interval: `${rateInterval(range, target, pixels)}s`,
    __interval: `${step(range, target, pixels)}s`,
    __range: `${range.end - range.start}s`,
    __from: `${range.start * 1000}`,
  };
  const scoped = Object.fromEntries(Object.entries(times).map(([name, value]) => [name, { value }]));
  const query = scene ? scene.interpolate(target.expr, scoped, escaped) : interpolate(target.expr, { ...variables, ...times }, list);
  const when = target.instant ? { time: range.end } : { ...range, step: step(range, target, pixels) };
  const path = target.instant ? 'query' : 'query_range';
  const reply = await fetch(`${base}/api/v1/${path}`, { method: 'POST', body: new URLSearchParams({ query, ...when }) });
  const body = await reply.json();
  if (body.status !== 'success') throw new Error(`${body.error} in\n${query}`);
  return body.data.resultType === 'scalar' ? [{ metric: {}, value: body.data.result }] : body.data.result;
}
