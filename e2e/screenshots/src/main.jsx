// Draws one of the committed boards: /?board=webhooks&from=…&to=…&var-name=…
import '@fontsource/inter/400.css';
import '@fontsource/inter/500.css';
import { createTheme, ThemeContext } from '@grafana/data';
import { GlobalStyles, PanelChrome } from '@grafana/ui';
import { Component, StrictMode, useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { marks } from './annotations.js';
import { load, style } from './frames.js';
import { current } from './interpolate.js';
import { panels } from './panels.jsx';

const query = new URLSearchParams(location.search);
const theme = createTheme({ colors: { mode: query.get('theme') ?? 'dark' } });
document.body.style.background = theme.colors.background.canvas;
const range = { start: Number(query.get('from')), end: Number(query.get('to')) };
const given = Object.fromEntries([...query].filter(([k]) => k.startsWith('var-')).map(([k, v]) => [k.slice(4), v]));

const unit = 38; // a grid row of 30 pixels and the gap below it
const gap = 8;
const margin = 16;
// Grafana docks its menu on screens that are this wide, and gives it this width.
const menu = innerWidth >= 1200 ? 300 : 0;

// replaceVariables fills in links: the values of the row or series, and what
// the user chose at the top of the board.
function replaceVariables(variables) {
  return (text, scoped) =>
    text.replace(/\$\{([^}]+)\}/g, (whole, name) => {
      const context = scoped?.__dataContext?.value ?? {};
      const [, scope, label, raw] = /^__(field\.labels|data\.fields)\.(\w+)(:raw)?$/.exec(name) ?? [];
      const written = (value) => (raw ? value ?? '' : encodeURIComponent(value ?? ''));
      if (scope === 'field.labels') return written(context.field?.labels?.[label]);
      if (scope === 'data.fields') return written(context.frame?.fields.find((f) => f.name === label)?.values[context.rowIndex]);
      if (name === '__url_time_range') return `from=${range.start}&to=${range.end}`;
      const [variable, format] = name.split(':');
      return format === 'queryparam' ? `var-${variable}=${encodeURIComponent(variables[variable] ?? '')}` : variables[variable] ?? whole;
    });
}

function Panel({ panel, variables, list, annotations, width, height }) {
  const [state, setState] = useState({});
  useEffect(() => {
    load(panel, { variables, list, range, pixels: width }).then(
      (frames) => setState({ frames: style(frames, panel.fieldConfig, theme, replaceVariables(variables)) }),
      (error) => setState({ error }),
    );
  }, []);
  const Draw = panels[panel.type];
  const empty = state.frames && state.frames.every((f) => f.length === 0);
  return (
    <div data-panel={panel.title} data-ready={Boolean(state.frames)} data-error={state.error?.message} data-empty={empty}>
      <PanelChrome title={panel.title} description={panel.description} width={width} height={height}>
        {(w, h) => {
          if (state.error) return <pre>{state.error.message}</pre>;
          if (!state.frames) return null;
          if (empty && panel.type !== 'stat') return <Nothing text={panel.fieldConfig.defaults.noValue ?? 'No data'} />;
          return <Guard><Draw {...{ panel, range, theme, annotations }} frames={state.frames} width={w} height={h} replaceVariables={replaceVariables(variables)} /></Guard>;
        }}
      </PanelChrome>
    </div>
  );
}

const Nothing = ({ text }) => (
  <div style={{ display: 'flex', height: '100%', alignItems: 'center', justifyContent: 'center', color: theme.colors.text.secondary }}>{text}</div>
);

// Guard shows what a component threw, where Grafana would show its error card.
class Guard extends Component {
  state = {};
  static getDerivedStateFromError = (error) => ({ error });
  render() {
    return this.state.error ? <pre data-error={this.state.error.message}>{this.state.error.stack}</pre> : this.props.children;
  }
}

// Header takes the room that Grafana's own bars take.
function Header({ board, variables }) {
  const chosen = (v) => (variables[v.name] === '$__all' ? 'All' : variables[v.name] || 'default');
  const words = (v) => v.query?.split?.(',').map((c) => c.split(' : ')).find(([, value]) => value === variables[v.name])?.[0] ?? chosen(v);
  const shown = board.templating.list.filter((v) => v.hide !== 2);
  const box = { border: `1px solid ${theme.colors.border.medium}`, borderRadius: 2, padding: '4px 8px', color: theme.colors.text.primary };
  return (
    <header style={{ padding: `0 ${margin}px`, color: theme.colors.text.primary }}>
      <div style={{ height: 48, display: 'flex', alignItems: 'center', fontSize: 14 }}>Dashboards &rsaquo; {board.title}</div>
      <div style={{ minHeight: 48, display: 'flex', flexWrap: 'wrap', gap: 8, alignItems: 'center', fontSize: 12, paddingBottom: 8 }}>
        {shown.map((v) => <span key={v.name} style={box}>{v.label}&ensp;<b>{v.type === 'custom' ? words(v) : chosen(v)}</b></span>)}
        {board.annotations.list.filter((a) => !a.hide).map((a) => <span key={a.name} style={box}>{a.name}&ensp;<b>on</b></span>)}
        {board.links.map((l) => <span key={l.title} style={box}>{l.title}</span>)}
      </div>
    </header>
  );
}

// Menu takes the room of Grafana's own, which it docks unless the user puts it away.
const Menu = () => (
  <nav style={{ position: 'fixed', left: 0, top: 0, bottom: 0, width: menu, boxSizing: 'border-box', padding: 16, fontSize: 14, lineHeight: '32px', color: theme.colors.text.secondary, background: theme.colors.background.primary, borderRight: `1px solid ${theme.colors.border.weak}` }}>
    {['Home', 'Starred', 'Dashboards', 'Explore', 'Alerting', 'Connections', 'Administration'].map((name) => <div key={name}>{name}</div>)}
  </nav>
);

function Board({ board, variables, annotations }) {
  const column = (innerWidth - menu - 2 * margin + gap) / 24;
  const bottom = Math.max(...board.panels.map((p) => p.gridPos.y + p.gridPos.h));
  return (
    <div style={{ marginLeft: menu }}>
      {menu > 0 && <Menu />}
      <Header board={board} variables={variables} />
      <main style={{ position: 'relative', height: bottom * unit, margin: `0 ${margin}px ${margin}px` }}>
        {board.panels.map((p) => {
          const { x, y, w, h } = p.gridPos;
          const at = { position: 'absolute', left: x * column, top: y * unit, width: w * column - gap, height: h * unit - gap };
          return (
            <div key={p.id} style={at}>
              {p.type === 'row' ? <h6 style={{ padding: 6, margin: 0, color: theme.colors.text.primary }}>{p.collapsed ? '\u25b8' : '\u25be'} {p.title}</h6> : <Panel panel={p} variables={variables} list={board.templating.list} annotations={annotations} width={at.width} height={at.height} />}
            </div>
          );
        })}
      </main>
    </div>
  );
}

const board = await (await fetch(`/boards/${query.get('board')}.json`)).json();
// JSON has no infinity: as Grafana does, null becomes the smallest threshold.
const restore = (value) => {
  if (Array.isArray(value?.steps)) for (const step of value.steps) step.value ??= -Infinity;
  if (value && typeof value === 'object') Object.values(value).forEach(restore);
};
restore(board.panels);
const variables = current(board, given);
const annotations = await marks('', board, { variables, list: board.templating.list, range });
document.body.dataset.lines = annotations.filter(({ from, to }) => from === to).length;
document.body.dataset.regions = annotations.filter(({ from, to }) => from !== to).length;
createRoot(document.getElementById('root')).render(
  <StrictMode>
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <Board {...{ board, variables, annotations }} />
    </ThemeContext.Provider>
  </StrictMode>,
);
