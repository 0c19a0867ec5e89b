// From Prometheus' answers to the data frames that Grafana's panels draw.
import {
  applyFieldOverrides, cacheFieldDisplayNames, FieldConfigOptionsRegistry, FieldType, identityOverrideProcessor,
  standardTransformers, standardTransformersRegistry, transformDataFrame, createDataFrame,
} from '@grafana/data';
import { firstValueFrom } from 'rxjs';
import { ask } from './interpolate.js';

// The transformers that boards use; Grafana's list names some twice.
const { mergeTransformer, filterFieldsByNameTransformer, organizeFieldsTransformer, orderFieldsTransformer, renameFieldsTransformer, filterFieldsTransformer, noopTransformer, filterByValueTransformer, groupingToMatrixTransformer, groupByTransformer, sortByTransformer } = standardTransformers;

standardTransformersRegistry.setInit(() =>
  [mergeTransformer, filterFieldsByNameTransformer, organizeFieldsTransformer, orderFieldsTransformer, renameFieldsTransformer, filterFieldsTransformer, noopTransformer, filterByValueTransformer, groupingToMatrixTransformer, groupByTransformer, sortByTransformer].map((t) => ({ id: t.id, name: t.name, transformation: () => Promise.resolve(t), editor: () => null, imageDark: '', imageLight: '' })),
);

const legend = (target, labels) =>
  target.legendFormat === '__auto' ? undefined : target.legendFormat.replace(/\{\{(\w+)\}\}/g, (_, name) => labels[name] ?? '');

function seriesFrames(target, result) {
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

function tableFrame(target, result, alone) {
  const names = [...new Set(result.flatMap((r) => Object.keys(r.metric)))].filter((n) => n !== '__name__').sort();
  return createDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: result.map((r) => r.value[0] * 1000), config: {} },
      ...names.map((name) => ({ name, type: FieldType.string, values: result.map((r) => r.metric[name] ?? ''), config: {} })),
      { name: alone ? 'Value' : `Value #${target.refId}`, type: FieldType.number, values: result.map((r) => Number(r.value[1])), config: {} },
    ],
  });
}

export async function load(panel, context) {
  const answers = await Promise.all(panel.targets.map((t) => ask('', t, context)));
  const frames = panel.targets.flatMap((t, i) =>
    t.format === 'table' ? (answers[i].length ? [tableFrame(t, answers[i], panel.targets.length === 1)] : []) : seriesFrames(t, answers[i]),
  );
  if (!panel.transformations || !frames.length) return frames;
  return firstValueFrom(transformDataFrame(panel.transformations, frames, { interpolate: (s) => s }));
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
