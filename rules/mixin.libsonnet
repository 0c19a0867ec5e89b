// The alerts, the records and the boards of webhook-auditor as a monitoring
// mixin. It reads what the repository holds in other forms, and changes what
// the options of "webhook-auditor print rules" change; a test compares both.
local groups = std.parseYaml(importstr 'prometheus.yaml').groups;
local adjustable = import 'adjustable.json';
local project = 'https://github.com/webhook-auditor/webhook-auditor/blob/main';

local replace(text, pairs) = std.foldl(function(t, p) std.strReplace(t, p[0], p[1]), pairs, text);

local partsOfNames = { [c]: true for c in std.stringChars('abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:"') };

// select adds label matchers to the selectors of a series. Where its name is a
// part of another, or of a text, it is no selector.
local select(text, name, matchers) =
  local parts = std.split(text, name);
  local selected(before, after) =
    local next = std.substr(after, 0, 1);
    if std.objectHas(partsOfNames, std.substr(before, std.length(before) - 1, 1)) || std.objectHas(partsOfNames, next) then name + after
    else if next == '{' then name + '{' + matchers + ',' + std.substr(after, 1, std.length(after))
    else name + '{' + matchers + '}' + after;
  std.join('', [parts[0]] + [selected(parts[i - 1], parts[i]) for i in std.range(1, std.length(parts) - 1)]);

{
  _config+:: {
    // The label that tells clusters apart in a shared store.
    clusterLabel: 'cluster',
    // Label matchers added to every selector, as 'job="kube-apiserver"'.
    selector: '',
    // The URL that the paths of the runbooks are appended to.
    runbookBaseURL: project,
    // The address of the auditor's status page, which alerts and boards then lead to.
    pageURL: '',
    // 'default', or 'enhancement' for those of OpenShift's enhancement.
    severities: 'default',
    // Labels added to every alert.
    alertLabels: {},
    // Names of alerts to leave out.
    disabled: [],
    // Names of alerts that page.
    critical: [],
    // The numbers of ALERTS.md by name, as { WebhookFailingOpen: 0.1, pageShare: 0.3 }.
    thresholds: {},
  },

  local c = $._config,
  local enhancement =
    if std.member(['default', 'enhancement'], c.severities) then c.severities == 'enhancement'
    else error 'severities "%s": must be default or enhancement' % c.severities,
  local known(name, what) =
    if std.objectHas(adjustable.alerts, name) then name else error '%s "%s": there is no such alert' % [what, name],
  local disabled = [known(name, 'disabled alert') for name in c.disabled],
  local critical = [
    if std.member(c.disabled, name) then error 'critical alert "%s": it is disabled' % name else known(name, 'critical alert')
    for name in c.critical
  ],
  // value is that of a number as given, or as decided by who decides over severities.
  local value(name) =
    local n = adjustable.numbers[name];
    if std.objectHas(c.thresholds, name) then c.thresholds[name] else if enhancement then std.get(n, 'enhancement', n.value) else n.value,
  local thresholds = {
    [name]:
      if !std.objectHas(adjustable.numbers, name) then error 'threshold of "%s": there is no such number' % name
      else
        local n = adjustable.numbers[name];
        local lowest = std.max(n.lowest, if n.atLeast == '' then n.lowest else value(n.atLeast));
        local highest = std.min(n.highest, if n.atMost == '' then n.highest else value(n.atMost));
        if std.setDiff(std.set(n.alerts), std.set(c.disabled)) == [] then error 'threshold of %s: each alert that depends on it is disabled' % name
        else if c.thresholds[name] < lowest || c.thresholds[name] > highest then error 'threshold of %s: must be at least %g, the lowest that works, and at most %g' % [name, lowest, highest]
        else '' + c.thresholds[name]
    for name in std.objectFields(c.thresholds)
  },

  // numbered is the expression of a rule with the numbers in their places.
  local numbered(rule, expr) =
    local number(name) = if std.objectHas(thresholds, name) then thresholds[name] else '' + value(name);
    replace(std.get(adjustable.rules, rule, expr), [['$' + name + ';', number(name)] for name in std.objectFields(adjustable.numbers)]),

  // ours is what the installation makes of an expression.
  local ours(text) =
    local labelled = replace(text, [
      ['(cluster)', '(' + c.clusterLabel + ')'],
      ['(cluster,', '(' + c.clusterLabel + ','],
      ['{cluster=', '{' + c.clusterLabel + '='],
      [',cluster=', ',' + c.clusterLabel + '='],
      [',cluster!=', ',' + c.clusterLabel + '!='],
      ['{cluster!=', '{' + c.clusterLabel + '!='],
    ]);
    if c.selector == '' then labelled
    else std.foldl(function(t, name) select(t, name, c.selector), adjustable.series, labelled),

  // described is what it makes of the queries in a template, which are between
  // back quotes, and of their arguments.
  local described(template) =
    local parts = std.split(template, '`');
    replace(std.join('`', [if i % 2 == 1 then ours(parts[i]) else parts[i] for i in std.range(0, std.length(parts) - 1)]),
            [['$labels.cluster' + after, '$labels.' + c.clusterLabel + after] for after in [' ', ')']]),

  local page = if c.pageURL == '' then '' else std.rstripChars(c.pageURL, '/') + '/',

  // pageOf is where on the page the subject of an alert is.
  local pageOf(rule) =
    if std.length(std.split(rule.annotations.summary + rule.annotations.description, '$labels.name')) == 1 then ''
    else 'webhooks?type={{ $labels.type | urlquery }}&q={{ $labels.name | urlquery }}',

  local pageLink(like, title, path) = like { title: title, url: page + path, targetBlank: true },

  // withRowLinks adds a link to the page to each that leads to a webhook's board.
  local withRowLinks(node) =
    if std.isArray(node) then std.flatMap(function(x) [withRowLinks(x)] + rowLinks(x), node)
    else if std.isObject(node) then { [key]: withRowLinks(node[key]) for key in std.objectFields(node) }
    else node,
  local rowLinks(node) =
    if !std.isObject(node) || std.get(node, 'title') != 'Open this webhook' then []
    else
      local field = std.split(std.split(node.url, '${')[1], '.type}')[0];
      [pageLink(node, 'Status page of this webhook', 'webhooks?type=${%s.type}&q=${%s.name}' % [field, field])],

  local linked(board) =
    if page == '' then board
    else withRowLinks(board) {
      links+: [
        if board.uid == 'webhook-auditor-webhook'
        then pageLink(board.links[0], 'Status page of this webhook', 'webhooks?type=${type:percentencode}&q=${name:percentencode}')
        else pageLink(board.links[0], 'Status page', ''),
      ],
      annotations+: { list: [
        if a.name != 'Changes' then a
        else a { textFormat+: ' <a href="%schanges?configuration={{configuration}}" target="_blank" rel="noreferrer">What it changed</a>' % page }
        for a in super.list
      ] },
    },

  local alert(rule) =
    local severity = if std.member(critical, rule.alert) then 'critical' else if enhancement then adjustable.alerts[rule.alert] else '';
    assert std.isString(std.toString(thresholds)); // each is looked at, be it in an expression or not
    rule {
      expr: ours(numbered(rule.alert, super.expr)),
      labels+: c.alertLabels + (if severity != '' then { severity: severity } else {}),
      annotations+: {
        [name]: described(rule.annotations[name])
        for name in ['description', 'runbook_variables']
        if std.objectHas(rule.annotations, name)
      } + {
        runbook_url: c.runbookBaseURL + std.strReplace(super.runbook_url, project, ''),
      } + (if page == '' then {} else { page_url: page + pageOf(rule) }),
    },

  // Prometheus refuses two groups of one name in a file.
  prometheusRules+:: {
    groups+: [
      g { name: g.name + '.rules', rules: [r { expr: ours(numbered(r.record, r.expr)) } for r in g.rules if 'record' in r] }
      for g in groups
      if std.length([r for r in g.rules if 'record' in r]) > 0
    ],
  },

  prometheusAlerts+:: {
    groups+: [
      g { rules: [alert(r) for r in g.rules if 'alert' in r && !std.member(disabled, r.alert)] }
      for g in groups
      if std.length([r for r in g.rules if 'alert' in r]) > 0
    ],
  },

  grafanaDashboards+:: {
    'webhook-auditor.json': linked(import '../dashboards/auditor.json'),
    'webhook-auditor-fleet.json': linked(import '../dashboards/fleet.json'),
    'webhook-auditor-webhook.json': linked(import '../dashboards/webhook.json'),
    'webhook-auditor-webhooks.json': linked(import '../dashboards/webhooks.json'),
  },
}
