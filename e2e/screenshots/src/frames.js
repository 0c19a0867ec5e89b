// From Prometheus' answers to the data frames that Grafana's panels draw.
import {
  applyFieldOverrides, cacheFieldDisplayNames, FieldConfigOptionsRegistry, FieldType, identityOverrideProcessor,
  standardTransformers, standardTransformersRegistry, transformDataFrame, createDataFrame,
} from '#data';
import { firstValueFrom } from 'rxjs';
import { ask } from './interpolate.js';

// Grafana's list names some twice.
standardTransformersRegistry.setInit(() =>
  [...new Map(Object.values(standardTransformers).map((t) => [t.id, t])).values()].map((t) => ({ id: t.id, name: t.name, transformation: () => Promise.resolve(t), editor: () => null, imageDark: '', imageLight: '' })),
);

const legend = (target, labels) =>
  target.legendFormat === '__auto' ? undefined : target.legendFormat.replace(/\{\{(\w+)\}\}/g, (_, name) => labels[name] ?? '');

function seriesFrames(target, result) {
  if (!result.length) return [createDataFrame({ refId: target.refId, fields: [] })];
  return result.map(({ metric, value, values }) => {
    const samples = values ?? [value];
    const { __name__: name, ...labels } = metric;
    return createDataFrame({
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: samples.map(([t]) => t * 1000), config: {} },
        { name: 'Value', type: FieldType.number, values: samples.map(([, v]) => Number(v)), labels, config: { displayNameFromDS: legend(target, labels) } },
      ],
    });
  });
}

// tableFrames are the frames of tables as Grafana's Prometheus data source makes
// them. A query without series gives a frame without fields, and where there are
// other queries one of a time and a value without rows.
function tableFrames(targets, answers) {
  const empty = (t) => createDataFrame({ refId: t.refId, fields: [] });
  if (targets.length === 1 && !answers[0].length) return [empty(targets[0])];
  return targets.map((target, i) => {
    const result = answers[i];
    const names = [...new Set(result.flatMap((r) => Object.keys(r.metric)))].filter((n) => n !== '__name__').sort();
    return createDataFrame({
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: result.map((r) => r.value[0] * 1000), config: {} },
        ...names.map((name) => ({ name, type: FieldType.string, values: result.map((r) => r.metric[name] ?? ''), config: {} })),
        { name: targets.length === 1 ? 'Value' : `Value #${target.refId}`, type: FieldType.number, values: result.map((r) => Number(r.value[1])), config: {} },
      ],
    });
  });
}

// transformed are the frames that the panel draws of the answers to its queries.
export async function transformed(panel, answers) {
  const frames = panel.targets[0].format === 'table' ? tableFrames(panel.targets, answers) : panel.targets.flatMap((t, i) => seriesFrames(t, answers[i]));
  if (!panel.transformations) return frames;
  return firstValueFrom(transformDataFrame(panel.transformations, frames, { interpolate: (s) => s }));
}

export async function load(panel, context) {
  return transformed(panel, await Promise.all(panel.targets.map((t) => ask('', t, context))));
}

// registry knows the properties that boards set: Grafana itself fills it from
// its panel plugins.
function registry(fieldConfig) {
  const standard = ['unit', 'min', 'max', 'decimals', 'displayName', 'noValue', 'thresholds', 'mappings', 'links', 'color'];
  const custom = new Set(Object.keys(fieldConfig.defaults.custom ?? {}));
  for (const { properties } of fieldConfig.overrides) {
    for (const { id } of properties) if (id.startsWith('custom.')) custom.add(id.slice('custom.'.length));
  }
  const item = (id, path, isCustom) => ({ id, path, isCustom, name: path, process: identityOverrideProcessor, shouldApply: () => true, override: () => null, editor: () => null, getItemsCount: () => 0 });
  const items = [...standard.map((s) => item(s, s, false)), ...[...custom].map((c) => item(`custom.${c}`, c, true))];
  return new FieldConfigOptionsRegistry(() => items);
}

export function style(frames, fieldConfig, theme, replaceVariables) {
  const out = applyFieldOverrides({ data: frames, fieldConfig, theme, replaceVariables, timeZone: 'utc', fieldConfigRegistry: registry(fieldConfig) });
  cacheFieldDisplayNames(out);
  return out;
}
