// The marks across the charts, as Grafana makes them of what Prometheus answers
// to the annotations of a board.
import { ask, step } from './interpolate.js';

// Grafana asks for annotations in this many steps.
const steps = 100;

// regions joins samples that are no further apart than the step: what lasts
// becomes a region, what is there once a line.
function regions(values, step) {
  const out = [];
  for (const time of values.filter(([, value]) => Number(value) > 0).map(([time]) => time)) {
    const last = out.at(-1);
    if (last && time - last.to <= step) last.to = time;
    else out.push({ from: time, to: time });
  }
  return out;
}

// events are the marks of one annotation. Values can stand for times.
function events({ useValueForTime, iconColor }, series, step) {
  const marks = ({ values }) =>
    useValueForTime ? [...new Set(values.map(([, value]) => Math.floor(value / 1000)))].map((time) => ({ from: time, to: time })) : regions(values, step);
  return series.flatMap(marks).map((mark) => ({ ...mark, color: iconColor }));
}

// marks are those of all annotations of the board within the range.
export async function marks(base, board, context) {
  const all = board.annotations.list.filter((a) => a.enable).map(async (a) => {
    const series = await ask(base, a.target, { ...context, pixels: steps });
    return events(a, series, step(context.range, a.target, steps));
  });
  return (await Promise.all(all)).flat().filter(({ from }) => from >= context.range.start && from <= context.range.end);
}
