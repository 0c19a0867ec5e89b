// An hour of a cluster with a thousand webhooks, six of which go wrong: what
// its API servers and two auditors would have exported.
import { createWriteStream } from 'node:fs';
import { once } from 'node:events';

// The incident always happens at the same time, so that pictures compare.
const end = Date.UTC(2026, 2, 2, 10, 0, 0) / 1000;
const first = end - 4800;

// hour is what the charts show; calm is the part before anything went wrong.
export const hour = { start: end - 3600, end };
export const calm = { start: first + 300, end: end - 3120 };
const scrape = 30;
const slow = 240; // constants need no more samples than a lookback of five minutes

export const culprit = 'pods.policy.example.com';
export const culprits = [
  culprit, 'sidecar.mesh.example.com', 'images.scan.example.com',
  'quota.tenants.example.com', 'certificates.certs.example.com', 'everything.legacy.example.com',
];

const edges = [0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 25];
const conversionEdges = Array.from({ length: 15 }, (_, i) => 0.001 * 2 ** i);

// random is the same on every machine.
function generator(seed) {
  return () => {
    seed = (seed * 1664525 + 1013904223) % 4294967296;
    return seed / 4294967296;
  };
}

const random = generator(7);
const teams = ['billing', 'search', 'maps', 'video', 'mail', 'chat', 'photos', 'docs', 'ads', 'store'];
const kinds = ['pods', 'deployments', 'services', 'configmaps', 'secrets', 'ingresses', 'jobs', 'nodes', 'namespaces', 'leases'];

// share is how much of the calls is so at time t: from the minute before the
// end on, rising over two minutes.
const since = (minutes, value) => (t) => {
  const from = end - minutes * 60;
  return t < from ? 0 : value * Math.min(1, (t - from) / 120);
};
const never = () => 0;

function healthy(i) {
  const team = teams[i % teams.length];
  const type = i % 25 === 0 ? 'conversion' : i % 2 ? 'validating' : 'admit';
  const kind = kinds[(i >> 3) % kinds.length];
  const name = type === 'conversion'
    ? `widgets${i}.${team}.example.com`
    : `${kind}-${type === 'admit' ? 'default' : 'check'}-${i}.${team}.example.com`;
  return {
    type, name, configuration: type === 'conversion' ? name : `${team}-${i % 40}`, namespace: team, service: `${team}-webhook`,
    rate: 0.2 + random() * 2, scale: 0.002 + random() * 0.02, slowness: never, tail: random() < 0.03 ? 0.004 : 0,
    closed: never, open: never, rejected: random() < 0.02 ? () => 0.01 + random() * 0.02 : never,
    policy: i % 5 ? 'Fail' : 'Ignore', reach: [['sensitive', '', 'secrets'], ['critical', '', 'pods']].slice(0, i % 3),
    ready: () => 1, owner: i % 4 ? `helm/${team}` : `olm/${team}-operator`, ca: 40 + (i * 7) % 900,
  };
}

function broken(over) {
  return {
    type: 'validating', configuration: over.name, namespace: 'policy', service: 'webhook', rate: 6, scale: 0.006, tail: 0,
    slowness: never, closed: never, open: never, rejected: never, policy: 'Fail', reach: [['critical', '', 'pods']],
    ready: () => 1, owner: 'helm/policy', ca: 300, ...over,
  };
}

export const webhooks = [
  broken({ name: culprits[0], configuration: 'policy', rate: 9, closed: since(35, 0.62), ready: (t) => (t < end - 35 * 60 ? 1 : 0), reach: [['critical', '', 'pods'], ['critical', '', 'nodes'], ['critical', 'coordination.k8s.io', 'leases']] }),
  broken({ name: culprits[1], type: 'admit', configuration: 'mesh', namespace: 'mesh', owner: 'helm/mesh', rate: 7, slowness: since(50, 0.12), closed: since(25, 0.02) }),
  broken({ name: culprits[2], configuration: 'scan', namespace: 'scan', owner: 'olm/scanner', policy: 'Ignore', rate: 5, open: since(20, 0.27), slowness: since(20, 0.03) }),
  broken({ name: culprits[3], configuration: 'tenants', namespace: 'tenants', owner: 'argocd/tenants', rate: 4, rejected: since(45, 0.41), ca: 4 }),
  broken({ name: culprits[4], type: 'conversion', configuration: culprits[4], namespace: 'certs', owner: 'helm/certs', rate: 3, closed: since(15, 0.9), slowness: since(15, 0.2), reach: [] }),
  broken({ name: culprits[5], type: 'admit', configuration: 'legacy', namespace: 'legacy', owner: '', rate: 8, ca: 17, reach: [['virtual', 'authorization.k8s.io', 'subjectaccessreviews'], ['virtual', 'authentication.k8s.io', 'tokenreviews'], ['sensitive', '', 'secrets'], ['critical', '', 'pods'], ['critical', '', 'services'], ['critical', 'apps', 'deployments']] }),
  ...Array.from({ length: 994 }, (_, i) => healthy(i)),
];

const findings = [
  ['virtual-resource', 'critical', culprits[5], 'authorization.k8s.io', 'subjectaccessreviews'],
  ['virtual-resource', 'critical', culprits[5], 'authentication.k8s.io', 'tokenreviews'],
  ['no-ready-endpoints', 'critical', culprits[0], '', ''],
  ['ca-expiring', 'warning', culprits[3], '', ''],
  ['ca-expiring', 'warning', culprits[5], '', ''],
  ['slow-timeout', 'warning', culprits[1], '', ''],
  ['critical-resource', 'info', culprits[0], '', 'pods'],
  ...webhooks.slice(6, 6 + 24).map((w, i) => [['timeout-too-long', 'catch-all', 'no-object-selector'][i % 3], 'warning', w.name, '', '']),
  ...webhooks.slice(40, 140).map((w) => ['sensitive-resource', 'info', w.name, '', 'secrets']),
];

// cumulative returns how many of n calls took up to edge: an exponential
// distribution, a share of which is slow.
const within = (w, edge, slowShare) =>
  (1 - slowShare) * (1 - Math.exp(-edge / w.scale) - w.tail * (edge < 0.5 ? 1 : 0)) + slowShare * (edge < 0.5 ? 0 : Math.min(1, (edge - 0.4) / 2.4));

// count integrates the calls of w between first and each sample, and what
// share of them was f.
function integrate(w, shares) {
  const sums = shares.map(() => 0);
  const out = [];
  for (let t = first; t <= end; t += scrape) {
    const calls = w.rate * scrape * (0.85 + 0.3 * Math.abs(Math.sin(t / 700 + w.rate * 9)));
    shares.forEach((f, i) => { sums[i] += calls * f(t); });
    out.push(sums.slice());
  }
  return out;
}

const one = () => 1;
const labels = (o) => `{${Object.entries(o).map(([k, v]) => `${k}="${v}"`).join(',')}}`;
const conversions = (w) => w.type === 'conversion';

// series returns all time series, family after family.
function* series() {
  yield* admission();
  yield* conversion();
  yield* requests();
  yield* auditors();
  yield* alerts();
}

const instances = (w) => (culprits.includes(w.name) ? ['10.0.0.1:6443', '10.0.0.2:6443'] : ['10.0.0.1:6443']);

function* admission() {
  const common = { job: 'apiserver' };
  for (const w of webhooks.filter((w) => !conversions(w))) {
    for (const instance of instances(w)) {
      const of = { ...common, instance, name: w.name, type: w.type };
      const is = { ...of, operation: 'CREATE', rejected: 'false' };
      const h = integrate(w, [...edges.map((e) => (t) => within(w, e, w.slowness(t))), one, (t) => w.scale + w.slowness(t) * 1.6]);
      const duration = 'apiserver_admission_webhook_admission_duration_seconds';
      for (const [i, e] of edges.entries()) yield [`${duration}_bucket`, { ...is, le: `${e}` }, h.map((s) => s[i])];
      yield [`${duration}_bucket`, { ...is, le: '+Inf' }, h.map((s) => s[edges.length])];
      yield [`${duration}_count`, is, h.map((s) => s[edges.length])];
      yield [`${duration}_sum`, is, h.map((s) => s[edges.length + 1])];
      yield* answers(w, of);
    }
  }
}

function* answers(w, of) {
  const on = { ...of, operation: 'CREATE' };
  const c = integrate(w, [(t) => 1 - w.closed(t) - w.open(t) - w.rejected(t), w.closed, w.open, w.rejected]);
  const requests = 'apiserver_admission_webhook_request_total';
  yield [requests, { ...on, code: '200', rejected: 'false' }, c.map((s) => s[0])];
  if (w.closed !== never) {
    yield [requests, { ...on, code: '503', rejected: 'true' }, c.map((s) => s[1])];
    yield ['apiserver_admission_webhook_rejection_count', { ...on, error_type: 'calling_webhook_error', rejection_code: '503' }, c.map((s) => s[1])];
  }
  if (w.open !== never) {
    yield [requests, { ...on, code: '503', rejected: 'false' }, c.map((s) => s[2])];
    yield ['apiserver_admission_webhook_fail_open_count', of, c.map((s) => s[2])];
  }
  if (w.rejected !== never) {
    yield [requests, { ...on, code: '403', rejected: 'true' }, c.map((s) => s[3])];
    yield ['apiserver_admission_webhook_rejection_count', { ...on, error_type: 'no_error', rejection_code: '403' }, c.map((s) => s[3])];
  }
}

function* conversion() {
  const common = { job: 'apiserver', instance: '10.0.0.1:6443' };
  const duration = 'apiserver_crd_conversion_webhook_duration_seconds';
  for (const w of webhooks.filter(conversions)) {
    for (const [succeeded, share] of [['true', (t) => 1 - w.closed(t)], ['false', w.closed]]) {
      if (share === never) continue;
      const is = { ...common, crd_name: w.name, from_version: 'v1', to_version: 'v2', succeeded };
      const h = integrate(w, [...conversionEdges.map((e) => (t) => share(t) * within(w, e, w.slowness(t))), share, (t) => share(t) * (w.scale + w.slowness(t) * 1.6)]);
      const n = conversionEdges.length;
      for (const [i, e] of conversionEdges.entries()) yield [`${duration}_bucket`, { ...is, le: `${e}` }, h.map((s) => s[i])];
      yield [`${duration}_bucket`, { ...is, le: '+Inf' }, h.map((s) => s[n])];
      yield [`${duration}_count`, is, h.map((s) => s[n])];
      yield [`${duration}_sum`, is, h.map((s) => s[n + 1])];
    }
  }
  const w = webhooks[4];
  for (const [kind, share] of [['conversion_webhook_call_failure', 0.8], ['conversion_webhook_malformed_response_failure', 0.2]]) {
    const total = integrate(w, [(t) => w.closed(t) * share]);
    yield ['apiserver_conversion_webhook_request_total', { ...common, result: 'failure', failure_type: kind }, total.map((s) => s[0])];
  }
}

function* requests() {
  const common = { job: 'apiserver', instance: '10.0.0.1:6443', component: 'apiserver', version: 'v1', scope: 'resource' };
  const resources = [['', 'pods', ''], ['', 'pods', 'status'], ['', 'secrets', ''], ['', 'configmaps', ''], ['', 'services', ''], ['apps', 'deployments', ''], ['apps', 'deployments', 'scale'],
    ['apps', 'statefulsets', ''], ['batch', 'jobs', ''], ['batch', 'cronjobs', ''], ['coordination.k8s.io', 'leases', ''], ['networking.k8s.io', 'ingresses', ''], ['policy', 'poddisruptionbudgets', ''],
    ...Array.from({ length: 47 }, (_, i) => [`${teams[i % 10]}.example.com`, `widgets${i}`, i % 3 ? '' : 'status'])];
  for (const [i, [group, resource, subresource]] of resources.entries()) {
    const added = (t) => (resource === 'pods' && !subresource ? 0.05 + since(50, 0.55)(t) : resource === 'secrets' ? 0.04 : 0.002 + (i % 7) * 0.004);
    for (const [verb, share] of [['POST', 1], ['PUT', 0.6], ['PATCH', 0.4]]) {
      const is = { ...common, group, resource, subresource, verb };
      const c = integrate({ rate: 3 * share }, [one, () => 0.012, (t) => 0.012 + added(t)]);
      yield ['apiserver_request_duration_seconds_count', { ...is, dry_run: '' }, c.map((s) => s[0])];
      yield ['apiserver_request_duration_seconds_sum', { ...is, dry_run: '' }, c.map((s) => s[2])];
      yield ['apiserver_request_sli_duration_seconds_count', is, c.map((s) => s[0])];
      yield ['apiserver_request_sli_duration_seconds_sum', is, c.map((s) => s[1])];
    }
  }
  for (const [type, operation] of [['admit', 'CREATE'], ['admit', 'UPDATE'], ['validate', 'CREATE'], ['validate', 'UPDATE'], ['validate', 'DELETE']]) {
    const w = { rate: 60, scale: 0.01, tail: 0, slowness: operation === 'CREATE' ? since(50, type === 'admit' ? 0.09 : 0.03) : never };
    const steps = [0.005, 0.025, 0.1, 0.5, 1, 2.5];
    const h = integrate(w, [...steps.map((e) => (t) => within(w, e, w.slowness(t))), one]);
    const is = { job: 'apiserver', instance: '10.0.0.1:6443', type, operation, rejected: 'false' };
    for (const [i, e] of steps.entries()) yield ['apiserver_admission_step_admission_duration_seconds_bucket', { ...is, le: `${e}` }, h.map((s) => s[i])];
    yield ['apiserver_admission_step_admission_duration_seconds_bucket', { ...is, le: '+Inf' }, h.map((s) => s[steps.length])];
  }
  for (const operation of ['CREATE', 'UPDATE']) {
    const c = integrate({ rate: 5 }, [one]);
    yield ['apiserver_admission_match_condition_exclusions_total', { job: 'apiserver', instance: '10.0.0.1:6443', name: culprit, kind: 'webhook', type: 'validate', operation }, c.map((s) => s[0])];
  }
}

// rare are samples for what hardly changes: [time, value] pairs.
function rare(f, step = slow) {
  const out = [];
  for (let t = first; t < end; t += step) out.push([t, f(t)]);
  out.push([end, f(end)]);
  return out;
}

function* auditors() {
  for (const [i, pod] of ['webhook-auditor-7c9d-4xk2p', 'webhook-auditor-7c9d-pw8zq'].entries()) {
    const at = { job: 'webhook-auditor', instance: `10.1.0.${i + 7}:8443`, pod, namespace: 'webhook-auditor' };
    const say = (name, of, value, step) => [`webhook_auditor_${name}`, { ...at, ...of }, rare(value, step)];
    for (const w of webhooks) yield* inventory(w, say);
    yield* configurations(say);
    for (const [check, severity, name, group, resource] of findings) {
      const w = webhooks.find((w) => w.name === name);
      const from = check === 'no-ready-endpoints' ? end - 35 * 60 : 0;
      const of = { check, severity, type: w.type, configuration: w.configuration, name, group, resource };
      yield [`webhook_auditor_finding`, { ...at, ...of }, rare(one).filter(([t]) => t >= from)];
    }
    for (const severity of ['critical', 'warning', 'info']) {
      const n = findings.filter((f) => f[1] === severity).length;
      yield say('findings', { severity, acknowledged: 'false' }, (t) => n - (severity === 'critical' && t < end - 35 * 60 ? 1 : 0), 60);
      yield say('findings', { severity, acknowledged: 'true' }, () => 2);
    }
    yield* itself(say, i);
  }
}

function* inventory(w, say) {
  const of = { type: w.type, configuration: w.configuration, name: w.name };
  const serviceNamespace = { service_namespace: w.namespace };
  yield say('webhook_info', { ...of, failure_policy: w.policy, match_policy: 'Equivalent', backend: 'service', service_namespace: w.namespace, service_name: w.service, approved: 'false', owner: w.owner }, one);
  yield say('webhook_timeout_seconds', of, () => 10);
  yield say('webhook_latency_threshold_seconds', { type: w.type, name: w.name, ...serviceNamespace }, () => (w.reach.some(([c]) => c === 'critical') ? 0.5 : 1));
  yield say('webhook_failure_impact', { type: w.type, name: w.name, ...serviceNamespace, impact: w.policy === 'Fail' ? 'closed' : 'open' }, one);
  for (const [c, group, resource] of w.reach) yield say('webhook_reach', { ...of, class: c, group, resource }, one);
  for (const c of ['critical', 'virtual', 'sensitive', 'core']) {
    yield say('webhook_reached_resources', { ...of, class: c }, () => w.reach.filter((r) => r[0] === c).length + (c === 'core' ? 12 : 0));
  }
  yield say('webhook_backend_ready', of, w.ready, 60);
  yield say('webhook_ca_bundle_not_after_timestamp_seconds', of, () => end + w.ca * 86400);
  yield say('webhook_serving_certificate_not_after_timestamp_seconds', of, () => end + (20 + (w.ca % 70)) * 86400);
  yield say('webhook_probe_success', of, w.ready, 60);
  yield say('webhook_probe_duration_seconds', of, (t) => 0.004 + 0.002 * Math.abs(Math.sin(t / 400 + w.rate)));
}

function* configurations(say) {
  const seen = new Set();
  for (const { type, configuration, rate } of webhooks) {
    if (seen.has(type + configuration)) continue;
    seen.add(type + configuration);
    const changed = configuration === 'mesh' ? end - 51 * 60 : end - 86400 * (3 + rate * 20);
    yield say('webhook_configuration_changed_timestamp_seconds', { type, configuration }, (t) => (t < changed ? changed - 5 * 86400 : changed));
  }
}

function* itself(say, i) {
  const budgets = [['', 'pods', 'CREATE', 42], ['', 'pods', 'UPDATE', 20], ['', 'nodes', 'UPDATE', 10], ['coordination.k8s.io', 'leases', 'UPDATE', 10], ['', 'services', 'CREATE', 10], ['apps', 'deployments', 'CREATE', 20], ['', 'pods/binding', 'CREATE', 3]];
  for (const [group, resource, operation, seconds] of budgets) yield say('admission_budget_seconds', { group, resource, operation }, () => seconds);
  const conditions = { VirtualResourceAdmissionError: () => true, ValidatingAdmissionWebhookConfigurationError: (t) => t >= end - 35 * 60, MutatingAdmissionWebhookConfigurationError: () => false, CRDConversionWebhookConfigurationError: () => false, ResourceControllersError: () => false, Degraded: () => true, Available: () => true, Progressing: () => false, Upgradeable: () => true };
  const reasons = { VirtualResourceAdmissionError: 'AdmissionWebhookMatchesVirtualResource', ValidatingAdmissionWebhookConfigurationError: 'WebhookServiceNoEndpoints' };
  for (const [condition, is] of Object.entries(conditions)) {
    for (const [status, truth] of [['True', true], ['False', false]]) {
      const samples = rare(one, 60).filter(([t]) => is(t) === truth);
      if (samples.length) {
        const [name, of] = say('condition', { condition, status, reason: truth ? reasons[condition] ?? 'AsExpected' : 'AsExpected' }, one);
        yield [name, of, samples];
      }
    }
  }
  yield say('snapshot_timestamp_seconds', {}, (t) => t - 12 - i, 30);
  yield say('build_info', { version: '0.1.0', revision: '2f1c9ab', goversion: 'go1.26.8' }, one);
  for (const [le, n] of [['0.005', 0.2], ['0.01', 0.93], ['0.025', 1], ['+Inf', 1]]) yield say('evaluation_duration_seconds_bucket', { le }, (t) => (t - first) / 60 * n, 60);
  for (const resource of ['validatingwebhookconfigurations', 'mutatingwebhookconfigurations']) yield say('watch_errors_total', { group: 'admissionregistration.k8s.io', resource }, (t) => (t > end - 1500 ? 1 : 0), 30);
  yield say('condition_write_errors_total', {}, () => 0, 60);
  const [, of] = say('x', {}, one);
  yield ['process_resident_memory_bytes', of, rare((t) => 6.1e7 + 4e6 * Math.abs(Math.sin(t / 900 + i)), 60)];
  yield ['process_cpu_seconds_total', of, rare((t) => (t - first) * 0.012 * (1 + i / 5), 60)];
}

function* alerts() {
  const firing = [['WebhookFailingClosed', 'critical', 0, 33], ['WebhookBackendDown', 'critical', 0, 30], ['WebhookCriticalResourceSlow', 'critical', 1, 35], ['WebhookFailingOpen', 'warning', 2, 10], ['WebhookConversionFailing', 'warning', 4, 5], ['WebhookOnVirtualResource', 'critical', 5, 75]];
  for (const [alertname, severity, i, minutes] of firing) {
    const w = webhooks[i];
    const of = { alertname, alertstate: 'firing', severity, type: w.type, name: w.name, namespace: w.namespace };
    yield ['ALERTS', of, rare(one, 60).filter(([t]) => t >= end - minutes * 60)];
  }
}

// write writes the incident in the OpenMetrics format, which wants the series
// of a family together.
export async function write(path) {
  const families = new Map();
  for (const s of series()) {
    if (!families.has(s[0])) families.set(s[0], []);
    families.get(s[0]).push(s);
  }
  const out = createWriteStream(path);
  for (const [name, list] of families) {
    for (const [, of, values] of list) {
      const head = name + labels(of) + ' ';
      const pairs = Array.isArray(values[0]) ? values : values.map((v, i) => [first + i * scrape, v]);
      if (!out.write(pairs.map(([t, v]) => `${head}${v} ${t}\n`).join(''))) await once(out, 'drain');
    }
  }
  out.end('# EOF\n');
  await once(out, 'finish');
}
