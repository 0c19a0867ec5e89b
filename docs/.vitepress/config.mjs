// The site is the documents of the repository where they stand: a page has the path of
// its file, so that links work in both. A link to a page or folder that does not exist
// ends the build.
import fs from 'node:fs'
import path from 'node:path'
import { defineConfig } from 'vitepress'

const root = path.resolve(import.meta.dirname, '../..')
const packages = path.resolve(import.meta.dirname, '../node_modules') + '/'
const checks = fs.readdirSync(path.join(root, 'pkg/classify')).filter((f) => /^[a-z-]+\.md$/.test(f)).map((f) => f.slice(0, -3))
const alerts = fs.readdirSync(path.join(root, 'rules/runbooks')).filter((f) => f.endsWith('.md')).map((f) => f.slice(0, -3))
const pages = (texts) => Object.entries(texts).map(([text, link]) => ({ text, link }))

export default defineConfig({
  title: 'webhook-auditor',
  description: 'Which admission and conversion webhooks put a cluster at risk.',
  srcDir: '..',
  outDir: '../dist/docs',
  cacheDir: '../bin/docs-cache',
  rewrites: { 'README.md': 'index.md' },
  srcExclude: ['**/node_modules/**', '**/testdata/**', '.github/**', 'e2e/**', 'bin/**', 'dist/**', 'manifests/bundle.md'],
  // Folders and programs of the repository are no pages.
  ignoreDeadLinks: [/\.go$/, /^\.\/schema/, /testdata\//],
  // The pages are outside of the folder with the packages.
  vite: { resolve: { alias: [{ find: /^vue$/, replacement: packages + 'vue' }, { find: /^vue\/server-renderer$/, replacement: packages + 'vue/server-renderer' }] } },
  themeConfig: {
    search: { provider: 'local' },
    sidebar: [
      { text: 'By task', items: pages({ Start: '/', Install: '/docs/install', Operate: '/docs/operate', 'In an incident': '/docs/incident', 'CI and files': '/docs/ci', Alerts: '/rules/README', Boards: '/dashboards/README', Fleets: '/rules/FLEET', 'A real cluster': '/docs/real-cluster' }) },
      { text: 'Reference', items: pages({ Commands: '/cmd/webhook-auditor/README', Checks: '/pkg/classify/README', Policy: '/pkg/classify/POLICY', Metrics: '/pkg/exporter/README', 'All alerts': '/rules/ALERTS', Chart: '/manifests/chart/README', 'Run level guard': '/manifests/run-level-guard/README' }) },
      { text: 'Project', items: pages({ Design: '/docs/design', Contributing: '/CONTRIBUTING', Security: '/SECURITY', Changes: '/CHANGELOG', Cost: '/BENCH', Roadmap: '/ROADMAP' }) },
      { text: 'Runbooks of checks', collapsed: true, items: checks.map((text) => ({ text, link: '/pkg/classify/' + text })) },
      { text: 'Runbooks of alerts', collapsed: true, items: alerts.map((text) => ({ text, link: '/rules/runbooks/' + text })) },
    ],
  },
})
