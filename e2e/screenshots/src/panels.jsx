// Each panel with the component that Grafana's own panel plugin wraps. The
// state timeline is in Grafana's server build alone; bands stand in for it.
import { dateTime, getFieldDisplayValues, outerJoinDataFrames } from '@grafana/data';
import { BigValue, TimeSeries } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { useLayoutEffect } from 'react';

const timeRange = ({ start, end }) => {
  const from = dateTime(start * 1000);
  const to = dateTime(end * 1000);
  return { from, to, raw: { from, to } };
};

// aligned joins the frames of a chart as Grafana's own panel does, which keeps
// the names of the fields. Without them the first line of the retired component
// has the color of the name "Value", since colors follow names.
const aligned = (frames, fields) => outerJoinDataFrames({ frames, joinBy: fields.x, keep: fields.y, keepOriginIndices: true, keepDisplayNames: true });

// Marks draws annotations as Grafana's own plugin of the chart does: a dashed
// line at what happened once, a shaded region over what lasted.
function Marks({ config, annotations, theme }) {
  useLayoutEffect(() => {
    config.addHook('draw', (u) => {
      const { ctx, bbox } = u;
      const x = (time) => Math.round(u.valToPos(time * 1000, 'x', true));
      ctx.save();
      ctx.lineWidth = 2;
      ctx.setLineDash([5, 5]);
      for (const { from, to, color } of annotations) {
        ctx.fillStyle = ctx.strokeStyle = theme.visualization.getColorByName(color);
        for (const time of new Set([from, to])) {
          ctx.beginPath();
          ctx.moveTo(x(time), bbox.top);
          ctx.lineTo(x(time), bbox.top + bbox.height);
          ctx.stroke();
        }
        ctx.globalAlpha = 0.1;
        if (to > from) ctx.fillRect(x(from), bbox.top, x(to) - x(from), bbox.height);
        ctx.globalAlpha = 1;
      }
      ctx.restore();
    });
  }, [config]);
  return null;
}

function Chart({ panel, frames: all, range, annotations, theme, width, height }) {
  const frames = all.filter((f) => f.length);
  return (
    <TimeSeries frames={frames} timeRange={timeRange(range)} timeZone="utc" width={width} height={height} legend={panel.options.legend} options={panel.options} preparePlotFrame={aligned}>
      {(config) => <Marks {...{ config, annotations, theme }} />}
    </TimeSeries>
  );
}

const displayed = ({ panel, frames, theme, replaceVariables }) =>
  getFieldDisplayValues({ fieldConfig: panel.fieldConfig, reduceOptions: panel.options.reduceOptions, replaceVariables, theme, data: frames, timeZone: 'utc' });

function Stat(props) {
  const { panel, width, height, theme } = props;
  const { colorMode, graphMode, justifyMode, textMode } = panel.options;
  return <BigValue value={displayed(props)[0].display} {...{ colorMode, graphMode, justifyMode, textMode, theme, width, height }} />;
}

function Rows({ panel, frames, range, width, height }) {
  return <TableNG data={frames[0]} width={width} height={height} noHeader={!panel.options.showHeader} cellHeight={panel.options.cellHeight} timeRange={timeRange(range)} structureRev={1} initialSortBy={panel.options.sortBy} />;
}

// bands joins neighbors of the same value.
function bands(field, time) {
  const out = [];
  field.values.forEach((v, i) => {
    const last = out.at(-1);
    if (last && last.value === v) last.to = time.values[i];
    else out.push({ value: v, from: time.values[i], to: time.values[i] });
  });
  return out.map((b, i) => ({ ...b, to: out[i + 1]?.from ?? b.to }));
}

// stated is how Grafana shows a value of a timeline. Where neighbors are merged
// in the color mode "thresholds", it shows the step of the thresholds instead,
// and drops the mappings.
function stated(panel, field, value) {
  const { color, thresholds } = panel.fieldConfig.defaults;
  if (color.mode !== 'thresholds' || !panel.options.mergeValues) return field.display(value);
  const step = thresholds.steps.findLast((s) => value >= s.value);
  return { text: `${step.value === -Infinity ? '-∞' : step.value}+`, color: field.display(value).color };
}

function States({ panel, frames: all, range, width, height }) {
  const frames = all.filter((f) => f.length);
  // Grafana cuts longer names at their beginnings.
  const names = Math.min(160, width / 3);
  const x = (t) => names + ((t / 1000 - range.start) / (range.end - range.start)) * (width - names);
  const row = Math.min(48, height / frames.length);
  return (
    <svg width={width} height={height} style={{ fontSize: 12, fill: 'currentColor' }}>
      {frames.map((frame, i) => {
        const [time, field] = frame.fields;
        return (
          <g key={i} transform={`translate(0, ${i * row})`}>
            <text x={names - 8} y={row / 2 + 4} textAnchor="end">{field.config.displayNameFromDS}</text>
            {bands(field, time).map((b, j) => {
              const { text, color } = stated(panel, field, b.value);
              return (
                <g key={j}>
                  <rect x={x(b.from)} width={Math.max(1, x(b.to) - x(b.from))} y={row * 0.1} height={row * 0.8} fill={color} opacity="0.8" />
                  <text x={x(b.from) + 6} y={row / 2 + 4} fill="#000">{x(b.to) - x(b.from) > 60 ? text : ''}</text>
                </g>
              );
            })}
          </g>
        );
      })}
    </svg>
  );
}

export const panels = { timeseries: Chart, stat: Stat, table: Rows, 'state-timeline': States };
