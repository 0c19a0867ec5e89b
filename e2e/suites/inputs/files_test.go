package inputs

// sound is a configuration that every bad file comes with: it must be reported
// all the same.
const sound = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: sound}
webhooks:
- name: sound.example.com
  clientConfig: {service: {namespace: tools, name: hook}}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [secrets]}]
  sideEffects: None
  admissionReviewVersions: [v1]
`
