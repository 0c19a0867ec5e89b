// Grafana's own variables and links in Node: the scene that Grafana makes of a
// board, without a browser.
import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);
const { JSDOM } = require('jsdom');

// What Grafana's components look for in a browser when they are loaded.
const { window } = new JSDOM('', { url: 'http://localhost/', pretendToBeVisual: true });
for (const name of Object.getOwnPropertyNames(window)) if (!(name in globalThis)) globalThis[name] = window[name];
const observer = class { observe() {} };
Object.assign(globalThis, {
  window: globalThis, document: window.document, dispatchEvent: () => true, addEventListener: () => {}, removeEventListener: () => {},
  matchMedia: () => ({ matches: false, addEventListener() {} }), ResizeObserver: observer, IntersectionObserver: observer,
});
require.extensions['.css'] = () => {};
const { CustomVariable, EmbeddedScene, QueryVariable, SceneCanvasText, sceneGraph, SceneTimeRange, SceneVariableSet, TextBoxVariable } = require('@grafana/scenes');

// variableOf is the variable that Grafana makes of one of a board's.
function variableOf({ name, type, query, current, includeAll, allValue }) {
  const { value, text } = current ?? {};
  switch (type) {
    case 'textbox': return new TextBoxVariable({ name, value: value || query });
    case 'query': return new QueryVariable({ name, includeAll, allValue, value: value ?? '', text: text ?? '' });
    case 'custom': return new CustomVariable({ name, query, includeAll, allValue, value: value ?? '', text: text ?? '' });
    default: return new CustomVariable({ name, query: 'default', value: value ?? '', text: text ?? '' });
  }
}

// opened is the board as Grafana opens it at an address with these parameters.
export function opened(board, { start, end }, given = {}) {
  const variables = board.templating.list.map(variableOf);
  const time = (seconds) => new Date(seconds * 1000).toISOString();
  const scene = new EmbeddedScene({
    body: new SceneCanvasText({ text: '' }), $variables: new SceneVariableSet({ variables }),
    $timeRange: new SceneTimeRange({ from: time(start), to: time(end) }),
  });
  for (const v of variables) {
    if (v.state.name in given) v.urlSync.updateFromUrl({ [`var-${v.state.name}`]: given[v.state.name] });
  }
  return {
    board,
    interpolate: (text, scoped, format) => sceneGraph.interpolate(scene, text, scoped, format),
  };
}

// linked are the variables that a link gives the board that it leads to. Where
// one is there twice, the last counts.
export function linked(scene, url, scoped) {
  const address = new URL(scene.interpolate(url, scoped), 'http://localhost');
  const given = {};
  for (const [key, value] of address.searchParams) if (key.startsWith('var-')) given[key.slice('var-'.length)] = value;
  return { board: address.pathname.split('webhook-auditor-').at(-1), given };
}
