// The site is the documents of the repository where they stand: a page has the path of
// its file, so that links work in both. A link to a page or folder that does not exist
// ends the build.
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { defineConfig } from 'vitepress'

const root = path.resolve(import.meta.dirname, '../..')
const project = 'https://github.com/webhook-auditor/webhook-auditor'
const packages = path.resolve(import.meta.dirname, '../node_modules') + '/'
const checks = fs.readdirSync(path.join(root, 'pkg/classify')).filter((f) => /^[a-z-]+\.md$/.test(f)).map((f) => f.slice(0, -3))
const alerts = fs.readdirSync(path.join(root, 'rules/runbooks')).filter((f) => f.endsWith('.md')).map((f) => f.slice(0, -3))
const pages = (texts) => Object.entries(texts).map(([text, link]) => ({ text, link }))

// version is that of the commit that the site is built from.
function version() {
  try {
    return execFileSync('git', ['describe', '--tags', '--always'], { cwd: root, encoding: 'utf8' }).trim()
  } catch {
    return 'unknown'
  }
}

// promql is as much of the language as colors need.
const promql = {
  name: 'promql',
  scopeName: 'source.promql',
  patterns: [
    { name: 'comment.line', match: '#.*$' },
    { name: 'string.quoted', match: '"(\\\\.|[^"\\\\])*"|\'(\\\\.|[^\'\\\\])*\'' },
    { name: 'keyword.control', match: '\\b(by|without|on|ignoring|group_left|group_right|offset|bool|and|or|unless)\\b' },
    { name: 'entity.name.function', match: '\\b[a-z_0-9]+(?=\\s*(\\(|by|without))' },
    { name: 'constant.numeric', match: '\\b[0-9]+(\\.[0-9]+)?(ms|s|m|h|d|w|y)?\\b' },
    { name: 'variable.other', match: '\\b[a-zA-Z_:][a-zA-Z0-9_:]*(?=\\s*(=|!|\\{))' },
  ],
}

export default defineConfig({
  title: 'webhook-auditor',
  description: 'Which admission and conversion webhooks put a cluster at risk.',
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: '/logo.svg' }]],
  srcDir: '..',
  outDir: '../dist/docs',
  cacheDir: '../bin/docs-cache',
  rewrites: { 'docs/index.md': 'index.md' },
  srcExclude: ['**/node_modules/**', '**/testdata/**', '.github/**', 'e2e/**', 'bin/**', 'dist/**', 'manifests/bundle.md'],
  // Folders and programs of the repository are no pages.
  ignoreDeadLinks: [/\.go$/, /^\.\/schema/, /testdata\//, /\/LICENSE$/],
  markdown: { languages: [promql] },
  vite: {
    // What pages show that is no part of a document.
    publicDir: path.resolve(import.meta.dirname, '../public'),
    // The pages are outside of the folder with the packages.
    resolve: { alias: [{ find: /^vue$/, replacement: packages + 'vue' }, { find: /^vue\/server-renderer$/, replacement: packages + 'vue/server-renderer' }] },
  },
  themeConfig: {
    logo: '/logo.svg',
    search: { provider: 'local' },
    nav: [{ text: version(), link: '/CHANGELOG' }],
    socialLinks: [{ icon: 'github', link: project }],
    editLink: { pattern: project + '/edit/main/:path', text: 'Edit this page' },
    sidebar: [
      { text: 'By task', items: pages({ 'Try it': '/README', Install: '/docs/install', Operate: '/docs/operate', 'In an incident': '/docs/incident', 'CI and files': '/docs/ci', Alerts: '/rules/README', Boards: '/dashboards/README', Fleets: '/rules/FLEET' }) },
      { text: 'Reference', items: pages({ Commands: '/cmd/webhook-auditor/README', Checks: '/pkg/classify/README', Policy: '/pkg/classify/POLICY', Metrics: '/pkg/exporter/README', 'All alerts': '/rules/ALERTS', Chart: '/manifests/chart/README', 'Run level guard': '/manifests/run-level-guard/README', Changes: '/CHANGELOG' }) },
      { text: 'Project', items: pages({ Design: '/docs/design', Contributing: '/CONTRIBUTING', Security: '/SECURITY', Roadmap: '/ROADMAP', 'For users of main': '/docs/from-main', 'Releases of Kubernetes': '/docs/releases', 'A real cluster': '/docs/real-cluster', 'Who changed what': '/docs/who-changed', Cost: '/BENCH' }) },
      { text: 'Runbooks of checks', collapsed: true, items: checks.map((text) => ({ text, link: '/pkg/classify/' + text })) },
      { text: 'Runbooks of alerts', collapsed: true, items: alerts.map((text) => ({ text, link: '/rules/runbooks/' + text })) },
    ],
  },
})
