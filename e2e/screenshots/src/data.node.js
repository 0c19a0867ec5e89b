// @grafana/data for Node, which can read the package's CommonJS form alone.
import { createRequire } from 'node:module';

export const {
  applyFieldOverrides, cacheFieldDisplayNames, createDataFrame, createTheme, FieldConfigOptionsRegistry, FieldType, getFieldDisplayValues,
  identityOverrideProcessor, standardTransformers, standardTransformersRegistry, transformDataFrame,
} = createRequire(import.meta.url)('@grafana/data');
